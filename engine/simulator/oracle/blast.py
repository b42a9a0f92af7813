"""Who may be hurt by what: the pairs that a schedule's faults leave alone."""

from __future__ import annotations

from engine.core.codes import AbortReason
from engine.simulator.schedule import LINK_FAULTS, Half, Request, Schedule

Pair = tuple[int, int]

OWN_FAULT = frozenset(
    {str(AbortReason.QUEUE_FULL), str(AbortReason.INPUT_TOO_LONG), str(AbortReason.KV_EXHAUSTED)}
)
"""Ends that a request may have with no fault anywhere near."""


def untouched_pairs(schedule: Schedule) -> frozenset[Pair]:
    """Pairs whose links and workers no fault names."""
    topology = schedule.topology
    hurt = {target for fault in schedule.faults for target in fault.targets}
    pairs = set()
    for prefill in range(topology.num_prefill):
        for decode in range(topology.num_decode):
            names = {f"p{prefill}", f"d{decode}"}
            names |= {f"{kind}:p{prefill}-d{decode}" for kind in ("bootstrap", "control", "kv")}
            if not names & hurt:
                pairs.add((prefill, decode))
    return frozenset(pairs)


def has_link_faults_only(schedule: Schedule) -> bool:
    return all(fault.kind in LINK_FAULTS for fault in schedule.faults)


def aborted_rids(schedule: Schedule) -> frozenset[str]:
    """An abort by rid hits every room of the rid."""
    return frozenset(request.rid for request in schedule.requests if request.aborts)


def must_complete(request: Request, untouched: frozenset[Pair], aborted: frozenset[str]) -> bool:
    return (
        request.half is Half.BOTH
        and (request.prefill, request.decode) in untouched
        and request.rid not in aborted
    )
