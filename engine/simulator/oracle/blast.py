"""Who may be hurt by what: the pairs that a schedule's faults leave alone, or only touch lightly."""

from __future__ import annotations

from itertools import pairwise

from engine.core.codes import AbortReason
from engine.simulator.schedule import (
    LINK_FAULTS,
    Act,
    ActKind,
    Fault,
    FaultKind,
    Half,
    Request,
    Schedule,
)

Pair = tuple[int, int]

OWN_FAULT = frozenset(
    {
        *(str(AbortReason.QUEUE_FULL), str(AbortReason.INPUT_TOO_LONG)),
        *(str(AbortReason.DEADLINE), str(AbortReason.TRANSFER_FAILED)),
    }
)
"""Ends that a request may have with no fault anywhere near (`legal` judges whether it may have it)."""

LIGHT_CUT_MS = {"bootstrap": 2000, "control": 1000, "kv": 2000}
"""Cuts up to this long lose nothing and abort nothing (DESIGN 7)."""
LONG_CUT_MS = 2500
"""A cut of `control` from here on ends what the pair has in hand."""
_CUTS = frozenset({FaultKind.STALL, FaultKind.BLACKHOLE, FaultKind.REFUSE})
LIGHT_MS = {FaultKind.PAUSE: 1000, FaultKind.WEDGE: 4000, FaultKind.SLOW: 60_000}
APART_MS = 3000
"""Two faults nearer than this to each other are as one long one."""


def names_of(pair: Pair) -> frozenset[str]:
    """The two workers and the three links of a pair."""
    name = f"p{pair[0]}-d{pair[1]}"
    links = {f"{kind}:{name}" for kind in ("bootstrap", "control", "kv")}
    return frozenset({f"p{pair[0]}", f"d{pair[1]}"} | links)


def faults_of(schedule: Schedule, pair: Pair) -> list[Fault]:
    """The faults that name a worker or a link of the pair, in order of time."""
    names = names_of(pair)
    return [fault for fault in schedule.faults if names & set(fault.targets)]


def _pairs(schedule: Schedule) -> list[Pair]:
    topology = schedule.topology
    return [(p, d) for p in range(topology.num_prefill) for d in range(topology.num_decode)]


def untouched_pairs(schedule: Schedule) -> frozenset[Pair]:
    """Pairs whose links and workers no fault names."""
    return frozenset(pair for pair in _pairs(schedule) if not faults_of(schedule, pair))


def unhurt_pairs(schedule: Schedule) -> frozenset[Pair]:
    """Pairs that see nothing but light faults, one at a time."""
    found = set()
    for pair in _pairs(schedule):
        faults = faults_of(schedule, pair)
        apart = all(
            after.at_ms - (before.at_ms + before.for_ms) >= APART_MS
            for before, after in pairwise(faults)
        )
        if apart and all(_is_light(fault) for fault in faults):
            found.add(pair)
    return frozenset(found)


def _is_light(fault: Fault) -> bool:
    if fault.kind in (FaultKind.RESET, FaultKind.DELAY):
        return True
    if fault.kind in LINK_FAULTS:
        kinds = {target.partition(":")[0] for target in fault.targets}
        return all(fault.for_ms <= LIGHT_CUT_MS[kind] for kind in kinds)
    return fault.for_ms <= LIGHT_MS.get(fault.kind, 0)


def long_cuts(schedule: Schedule) -> list[tuple[Pair, Fault]]:
    """Cuts of a control link that must be noticed, with no other fault of the pair near their start."""
    found = []
    for pair in _pairs(schedule):
        control = f"control:p{pair[0]}-d{pair[1]}"
        faults = faults_of(schedule, pair)
        for cut in faults:
            others = [fault for fault in faults if fault is not cut]
            is_long = cut.kind in _CUTS and cut.for_ms >= LONG_CUT_MS and control in cut.targets
            if is_long and not any(_is_near(cut, other) for other in others):
                found.append((pair, cut))
    return found


def _is_near(cut: Fault, other: Fault) -> bool:
    begins_late = other.at_ms > cut.at_ms + LONG_CUT_MS
    return not begins_late and other.at_ms + other.for_ms > cut.at_ms - APART_MS


def aborted_rids(schedule: Schedule) -> frozenset[str]:
    """An abort by rid hits every room of the rid; a prefix hits more."""
    prefixes = tuple(act.rid for act in schedule.acts if act.kind is ActKind.ABORT_PREFIX)
    return frozenset(
        request.rid
        for request in schedule.requests
        if request.aborts or (prefixes and request.rid.startswith(prefixes))
    )


def must_complete(
    request: Request, unhurt: frozenset[Pair], aborted: frozenset[str], acts: tuple[Act, ...]
) -> bool:
    workers = {f"p{request.prefill}", f"d{request.decode}"}
    came_before_abort_all = any(
        act.kind is ActKind.ABORT_ALL
        and act.worker in workers
        and request.at_ms < act.at_ms + APART_MS
        for act in acts
    )
    return (
        request.half is Half.BOTH
        and (request.prefill, request.decode) in unhurt
        and request.rid not in aborted
        and not came_before_abort_all
    )
