"""`FaultWindow`: the lines of one fault in `faults.jsonl`, folded into one interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from chaos.records import FaultEvent, FaultRecord

PROCESS = "process"
NEW_PROCESS = ("kill", "restart")
SILENT_PROCESS = ("kill", "restart", "pause")
"""Modes in which nothing of the worker answers."""
TELEMETRY = "telemetry"
LINK = "link"
SPAN_TAIL_NS = 1_000_000_000
"""A killed worker loses the spans that it had not sent yet: those of its last second, generously."""
_ONCE = (
    FaultEvent.DECLARED,
    FaultEvent.INJECTING,
    FaultEvent.INJECTED,
    FaultEvent.HEALED,
)
_ORDER = (
    FaultEvent.DECLARED,
    FaultEvent.INJECTING,
    FaultEvent.INJECTED,
    FaultEvent.VERIFIED,
    FaultEvent.HEALED,
)


class FaultWindow(Struct, frozen=True, kw_only=True):
    """Times are CLOCK_MONOTONIC. ``begin_ns`` None: never on. ``end_ns`` is infinite if never healed.

    ``gaps``: why this fault is not proven; empty for a sound one.
    """

    id: str
    kind: str
    mode: str
    links: tuple[str, ...]
    workers: tuple[str, ...]
    permits: frozenset[str]
    incarnations: dict[str, str]
    begin_ns: int | None
    injected_ns: int | None
    healed_ns: int | None
    rung: str | None
    heal_ms: float | None
    gaps: tuple[str, ...]

    @property
    def end_ns(self) -> float:
        return math.inf if self.healed_ns is None else self.healed_ns

    @property
    def is_kill(self) -> bool:
        """Whether its workers are other processes afterwards."""
        return self.kind == PROCESS and self.mode in NEW_PROCESS

    @property
    def is_silent(self) -> bool:
        """Whether its workers answer nobody while it is on."""
        return self.kind == PROCESS and self.mode in SILENT_PROCESS

    @property
    def label(self) -> str:
        return f"{self.id} ({self.mode} {', '.join((*self.links, *self.workers))})"

    def covers(self, at_ns: int, after_s: float = 0.0) -> bool:
        """Whether it was on at ``at_ns``, or over for no more than ``after_s``."""
        return self.begin_ns is not None and self.begin_ns <= at_ns <= self.end_ns + after_s * 1e9

    def overlaps(self, begin_ns: int, end_ns: float, after_s: float = 0.0) -> bool:
        if self.begin_ns is None:
            return False
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns + after_s * 1e9

    def cuts_control(self, for_s: float) -> bool:
        """Whether peers must find each other dead: no ``control`` for so long, or a killed worker."""
        if self.begin_ns is None:
            return False
        if self.is_kill:
            return True
        long_enough = self.end_ns - self.begin_ns >= for_s * 1e9
        return long_enough and any(link.startswith("control:") for link in self.links)


def pair_of(link: str) -> tuple[str, ...]:
    """The workers of ``kind:prefill-decode``."""
    return tuple(link.partition(":")[2].split("-"))


def fold(records: Sequence[FaultRecord]) -> tuple[FaultWindow, ...]:
    """One window a fault, in the order of the journal."""
    groups: dict[str, list[FaultRecord]] = {}
    for record in records:
        groups.setdefault(record.fault_id, []).append(record)
    return tuple(_window(group) for group in groups.values())


def killed_between(
    faults: Iterable[FaultWindow], workers: Iterable[str], begin_ns: int, end_ns: float
) -> bool:
    """Whether one of ``workers`` was dead, or lost its last spans, at any time in between; or whether the
    span store was away, which loses spans of all."""
    names = set(workers)
    return any(
        (fault.kind == TELEMETRY or (fault.is_kill and names & set(fault.workers)))
        and fault.overlaps(begin_ns, end_ns + SPAN_TAIL_NS)
        for fault in faults
    )


def killed_incarnations(faults: Iterable[FaultWindow]) -> frozenset[tuple[str, str]]:
    """(worker, incarnation) of every process that a fault killed."""
    return frozenset(
        (worker, fault.incarnations[worker])
        for fault in faults
        if fault.is_kill and fault.begin_ns is not None
        for worker in fault.workers
        if worker in fault.incarnations
    )


def _window(records: list[FaultRecord]) -> FaultWindow:
    first = records[0]
    at: dict[FaultEvent, int] = {}
    for record in records:
        at.setdefault(record.event, record.at_ns)
    healed = next((one for one in records if one.event is FaultEvent.HEALED), None)
    on = [one.at_ns for one in records if one.event is not FaultEvent.DECLARED]
    return FaultWindow(
        id=first.fault_id,
        kind=first.kind,
        mode=first.mode,
        links=first.links,
        workers=first.workers,
        permits=frozenset(first.permits),
        incarnations=first.incarnations,
        begin_ns=min(on, default=None),
        injected_ns=at.get(FaultEvent.INJECTED),
        healed_ns=healed.at_ns if healed else None,
        rung=healed.rung if healed else None,
        heal_ms=healed.heal_ms if healed else None,
        gaps=tuple(_gaps(records, at)),
    )


def _gaps(records: list[FaultRecord], at: dict[FaultEvent, int]) -> list[str]:
    """What keeps this fault from being proven."""
    gaps = [f"no {event} line" for event in _ORDER if event not in at]
    counts = [record.event for record in records]
    gaps += [f"{counts.count(event)} {event} lines" for event in _ONCE if counts.count(event) > 1]
    times = [at[event] for event in _ORDER if event in at]
    if times != sorted(times):
        gaps.append("its lines are out of order")
    gaps += [
        f"unproven: {record.proof or record.error or 'no effect was seen'}"
        for record in records
        if record.event is FaultEvent.UNPROVEN
    ]
    if not any(record.proof for record in records if record.event is FaultEvent.VERIFIED):
        gaps.append("nothing says how it was verified")
    if len({(one.kind, one.mode, one.links, one.workers, one.permits) for one in records}) > 1:
        gaps.append("its lines contradict each other")
    return gaps
