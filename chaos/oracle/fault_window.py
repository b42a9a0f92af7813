"""`FaultWindow`: the lines of one fault in `faults.jsonl`, folded into one interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from chaos.records import FaultEvent, FaultRecord

PROCESS = "process"
TELEMETRY = "telemetry"
_ENDS = frozenset({"kill", "restart"})
_STOPS = _ENDS | {"pause"}
_CUTS = frozenset({"stall", "blackhole", "refuse", "one_way"})
"""Modes of a link under which nothing gets through for as long as they last, one way at least."""
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
    healing_ns: int | None = None
    silences: frozenset[str] = frozenset()

    @property
    def end_ns(self) -> float:
        return math.inf if self.healed_ns is None else self.healed_ns

    @property
    def ends_process(self) -> bool:
        """The worker comes back as another process; its last spans may be lost."""
        return self.kind == PROCESS and self.mode in _ENDS

    @property
    def stops_worker(self) -> bool:
        """The worker answers nobody while it is on."""
        return self.kind == PROCESS and self.mode in _STOPS

    @property
    def sure_begin_ns(self) -> int:
        """When it was on for certain: injecting may take a while."""
        return self.injected_ns or self.begin_ns or 0

    @property
    def sure_s(self) -> float:
        """How long it was on at least: from injected until its heal began."""
        until = self.healing_ns if self.healing_ns is not None else self.end_ns
        return max(0.0, (until - self.sure_begin_ns) / 1e9)

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
        """Whether peers must find each other dead: a process ended, or surely nothing of ``control``
        (or of the worker) for so long."""
        if self.begin_ns is None or self.ends_process:
            return self.begin_ns is not None
        if self.sure_s < for_s:
            return False
        cut = self.mode in _CUTS and any(link_kind(link) == "control" for link in self.links)
        return cut or self.stops_worker


def link_kind(link: str) -> str:
    """``kind`` of ``kind:prefill-decode``."""
    return link.partition(":")[0]


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
    """Whether one of ``workers`` was dead, or lost its last spans, at any time in between."""
    names = set(workers)
    return any(
        fault.ends_process
        and names & set(fault.workers)
        and fault.overlaps(begin_ns, end_ns + SPAN_TAIL_NS)
        for fault in faults
    )


def killed_incarnations(faults: Iterable[FaultWindow]) -> frozenset[tuple[str, str]]:
    """(worker, incarnation) of every process that a fault killed."""
    return frozenset(
        (worker, fault.incarnations[worker])
        for fault in faults
        if fault.ends_process and fault.begin_ns is not None
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
        healing_ns=at.get(FaultEvent.HEALING),
        silences=frozenset(first.silences),
        healed_ns=healed.at_ns if healed else None,
        rung=healed.rung if healed else None,
        heal_ms=healed.heal_ms if healed else None,
        gaps=tuple(_gaps(records, at)),
    )


def _identity(record: FaultRecord) -> tuple[str | tuple[str, ...], ...]:
    """What every line of one fault must repeat."""
    return (
        record.kind,
        record.mode,
        record.links,
        record.workers,
        record.permits,
        record.silences,
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
    if len({_identity(one) for one in records}) > 1:
        gaps.append("its lines contradict each other")
    return gaps
