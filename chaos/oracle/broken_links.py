"""When news of an abort could not get through: a fault on the pair's links, or a dead end."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence
from chaos.oracle.fault_window import FaultWindow, pair_of
from chaos.oracle.span_index import Half

_AFTER_S = 1.0
"""Peers take so long to find each other again after a heal; news may come that late."""


def link_broke(evidence: RunEvidence, one: Half, other: Half, begin_ns: int, end_ns: int) -> bool:
    """Whether a fault kept the two halves apart at any time in between."""
    dead_after_s = evidence.plan.deployment.worker.peer_dead_after_s
    return any(
        _parts(fault, one.worker, other.worker)
        and fault.overlaps(begin_ns, end_ns, dead_after_s + _AFTER_S)
        for fault in evidence.faults
    )


def _parts(fault: FaultWindow, one: str, other: str) -> bool:
    if fault.workers:
        return one in fault.workers or other in fault.workers
    return any({one, other} == set(pair_of(link)) for link in fault.links)
