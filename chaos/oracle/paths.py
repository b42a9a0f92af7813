"""Which workers a request went through, and whether a fault lay on its way.

With several pairs a fault explains nothing about a request of another pair, and proves nothing by it.
"""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence
from chaos.oracle.fault_window import FaultWindow, pair_of
from chaos.oracle.plan import Plan
from chaos.oracle.requests import Request

Path = frozenset[str]
"""Workers known to have had one room; a role without any is not known."""


def paths_of(evidence: RunEvidence, rid: str) -> tuple[Path, ...]:
    """One a room, since a router repeats a rid; without spans one path of which nothing is known."""
    rooms: dict[str, set[str]] = {}
    for half in evidence.spans.halves.get(rid, ()):
        rooms.setdefault(half.room, set()).add(half.worker)
    return tuple(frozenset(workers) for workers in rooms.values()) or (frozenset(),)


def may_meet(evidence: RunEvidence, fault: FaultWindow, rid: str) -> bool:
    """Whether the fault can have lain on a path: a half whose spans are lost may be anybody's."""
    plan = evidence.plan
    return any(
        all(_may_be(plan, path, worker) for worker in ends)
        for path in paths_of(evidence, rid)
        for ends in _ends_of(fault)
    )


def did_meet(evidence: RunEvidence, fault: FaultWindow, request: Request) -> bool:
    """Whether the fault surely lay on a path.

    A killed worker takes its last spans along: where its role has no half at all, the half was its. With
    one worker a role there is nobody else.
    """
    plan = evidence.plan
    if len(plan.workers) == 2:
        return may_meet(evidence, fault, request.rid)
    paths = paths_of(evidence, request.rid)
    if any(ends <= path for path in paths for ends in _ends_of(fault)):
        return True
    return fault.ends_process and request.server_failed and may_meet(evidence, fault, request.rid)


def _ends_of(fault: FaultWindow) -> tuple[Path, ...]:
    """Sets of workers; the fault lies on a path that holds all of one set."""
    if fault.workers:
        return tuple(frozenset({worker}) for worker in fault.workers)
    ends = tuple(dict.fromkeys(frozenset(pair_of(link)) for link in fault.links))
    return ends or (frozenset(),)  # a fault of telemetry is beside every path


def _may_be(plan: Plan, path: Path, worker: str) -> bool:
    peers = next((p for p in (plan.prefill_workers, plan.decode_workers) if worker in p), (worker,))
    return worker in path or not path & set(peers)
