"""Guards: looked at four times a second while the load runs; the first one that trips ends the run.

A guard pulls the brake, which every wait of the runner feels at once: the fault that is on is healed in
the middle of its step, not after it. A guard that cannot see counts as unsafe (`NoDataGuard`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import msgspec

from chaos.codes import Signal
from chaos.fault_step import ActiveFaults
from chaos.freshness import Freshness
from chaos.guard import Guard, Trip
from chaos.history_tail import HistoryTail
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.ledger_guards import KvExhaustionGuard, ResidueGuard
from chaos.records import EventKind
from chaos.slo import Recent
from chaos.slo_guards import BurnRateGuard, ErrorRateGuard, GoodputGuard, LatencyGuard
from chaos.spec import (
    BurnRate,
    ErrorRate,
    Goodput,
    GuardSpec,
    KvExhaustion,
    LatencyP99,
    NoData,
    Residue,
    StuckRequest,
)

PERIOD_S = 0.25


class StuckRequestGuard:
    """No request may be open for longer than ``older_than_s``; no fault excuses it."""

    def __init__(self, history: HistoryTail, older_than_s: float) -> None:
        self._history = history
        self._limit_s = older_than_s

    def check(self) -> Trip | None:
        if not self._history.open_since_ns:
            return None
        rid, since_ns = min(self._history.open_since_ns.items(), key=lambda item: item[1])
        age_s = (time.monotonic_ns() - since_ns) / 1e9
        if age_s <= self._limit_s:
            return None
        return Trip(
            guard="stuck_request",
            value=age_s,
            limit=self._limit_s,
            detail=f"request {rid} has been open for {age_s:.1f} s (limit {self._limit_s:g} s)",
            breached_at=since_ns / 1e9 + self._limit_s,
        )


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """When history lines must come: until ``until_s`` of CLOCK_MONOTONIC, on average ``rate`` a second."""

    until_s: float
    rate: float


class NoDataGuard:
    """History (while requests are sent) and ledgers must keep coming, unless a fault takes them away."""

    def __init__(
        self,
        workers: Sequence[str],
        freshness: Freshness,
        active: ActiveFaults,
        sending: Sending,
        for_s: float,
    ) -> None:
        self._workers = workers
        self._freshness = freshness
        self._active = active
        self._sending = sending
        self._limit_s = for_s
        # Requests come at random: a gap of ten mean gaps is silence, whatever the limit says.
        self._history_limit_s = max(for_s, 10 / sending.rate)

    def check(self) -> Trip | None:
        if time.monotonic() < self._sending.until_s:
            trip = self._judge("history", self._history_limit_s)
            if trip is not None:
                return trip
        for worker in self._workers:
            if self._active.explains(Signal.LEDGER, worker):
                self._freshness.seen(f"ledger:{worker}")
        trips = (self._judge(f"ledger:{worker}", self._limit_s) for worker in self._workers)
        return next((trip for trip in trips if trip is not None), None)

    def _judge(self, source: str, limit_s: float) -> Trip | None:
        age_s = self._freshness.age_s(source)
        if age_s <= limit_s:
            return None
        return Trip(
            guard="no_data",
            value=age_s,
            limit=limit_s,
            detail=f"nothing from {source} for {age_s:.1f} s and no fault explains it",
            breached_at=time.monotonic() - (age_s - limit_s),
        )


class GuardWatch:
    """Polls all guards in a thread of its own, on an absolute schedule."""

    def __init__(
        self,
        guards: Sequence[Guard],
        history: HistoryTail,
        freshness: Freshness,
        brake: Brake,
        journal: Journal,
        recent: Recent | None = None,
    ) -> None:
        self._guards = guards
        self._recent = recent
        self._history = history
        self._freshness = freshness
        self._brake = brake
        self._journal = journal
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guards", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            trip = self._look()
            if trip is not None:
                self._trip(trip)
                return
            due = max(due + PERIOD_S, time.monotonic())

    def _look(self) -> Trip | None:
        try:
            if self._history.read():
                self._freshness.seen("history")
            ended = self._history.take_ended()
            if self._recent is not None:
                self._recent.take(ended)
        except (OSError, msgspec.DecodeError) as error:
            return Trip(guard="no_data", value=0, limit=0, detail=f"history.jsonl: {error}")
        return next((trip for guard in self._guards if (trip := guard.check())), None)

    def _trip(self, trip: Trip) -> None:
        # The brake first: writing the record may wait for a disk.
        self._brake.halt(f"{trip.guard}: {trip.detail}", trip.breached_at)
        self._journal.event(
            EventKind.GUARD,
            trip.guard,
            ok=False,
            value=trip.value,
            limit=trip.limit,
            detail=trip.detail,
        )


class Eyes(msgspec.Struct, frozen=True, kw_only=True):
    """What guards look with."""

    workers: tuple[str, ...]
    history: HistoryTail
    freshness: Freshness
    active: ActiveFaults
    sending: Sending
    recent: Recent


def build_guards(specs: Sequence[GuardSpec], eyes: Eyes) -> list[Guard]:
    return [_build(spec, eyes) for spec in specs]


def _build(spec: GuardSpec, eyes: Eyes) -> Guard:
    match spec:
        case StuckRequest():
            return StuckRequestGuard(eyes.history, spec.older_than_s)
        case NoData():
            return NoDataGuard(eyes.workers, eyes.freshness, eyes.active, eyes.sending, spec.for_s)
        case ErrorRate():
            return ErrorRateGuard(spec, eyes.recent, eyes.active)
        case LatencyP99():
            return LatencyGuard(spec, eyes.recent, eyes.active)
        case Goodput():
            return GoodputGuard(spec, eyes.recent, eyes.active)
        case BurnRate():
            return BurnRateGuard(spec, eyes.recent, eyes.active)
        case KvExhaustion():
            return KvExhaustionGuard(spec, eyes.workers, eyes.freshness, eyes.active)
        case Residue():
            return ResidueGuard(spec, eyes.workers, eyes.freshness)
