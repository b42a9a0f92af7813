"""Guards over what workers say of themselves: pages that run out, laws that are broken."""

from __future__ import annotations

import time
from collections.abc import Sequence

from chaos.codes import Signal
from chaos.fault_step import ActiveFaults
from chaos.freshness import Freshness
from chaos.guard import Trip
from chaos.spec import KvExhaustion, Residue


class KvExhaustionGuard:
    """Free KV pages of a worker stay under a share of all of them."""

    def __init__(
        self, spec: KvExhaustion, workers: Sequence[str], freshness: Freshness, active: ActiveFaults
    ) -> None:
        self._spec, self._workers = spec, workers
        self._freshness, self._active = freshness, active
        self._since: dict[str, float] = {}

    def check(self) -> Trip | None:
        trips = (self._judge(worker) for worker in self._workers)
        return next((trip for trip in trips if trip is not None), None)

    def _judge(self, worker: str) -> Trip | None:
        spec, ledger = self._spec, self._freshness.ledger(worker)
        pages = ledger.resources.get("kv_pages") if ledger else None
        excused = not spec.judge_faults and self._active.silenced(Signal.KV, spec.grace_s)
        if pages is None or excused or pages.free >= spec.min_free_share * pages.total:
            self._since.pop(worker, None)
            return None
        since = self._since.setdefault(worker, time.monotonic())
        if time.monotonic() - since < spec.for_s:
            return None
        return Trip(
            guard="kv_exhaustion",
            value=pages.free / max(1, pages.total),
            limit=spec.min_free_share,
            detail=f"{worker}: {pages.free} of {pages.total} KV pages free for {spec.for_s:g} s",
            breached_at=since + spec.for_s,
        )


class ResidueGuard:
    """A worker says that its own books do not agree, or that something was freed twice. No fault excuses
    that."""

    def __init__(self, spec: Residue, workers: Sequence[str], freshness: Freshness) -> None:
        self._spec, self._workers, self._freshness = spec, workers, freshness

    def check(self) -> Trip | None:
        for worker in self._workers:
            ledger = self._freshness.ledger(worker)
            if ledger is None:
                continue
            broken = [*ledger.conservation]
            if ledger.double_frees:
                broken.append(f"{ledger.double_frees} double frees")
            if len(broken) > self._spec.max_broken:
                return Trip(
                    guard="residue",
                    value=len(broken),
                    limit=self._spec.max_broken,
                    detail=f"{worker}: {broken[0]}",
                )
        return None
