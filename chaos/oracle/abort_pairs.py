"""Both halves of a room: whether their abort codes can belong to one event."""

from __future__ import annotations

from itertools import combinations

from chaos.oracle.abort_codes import PEER, AbortCodes, codes_of, legal_pair
from chaos.oracle.broken_links import link_broke
from chaos.oracle.evidence import RunEvidence
from chaos.oracle.findings import Findings
from chaos.oracle.span_index import Half


def judge_pairs(evidence: RunEvidence, halves: tuple[Half, ...], findings: Findings) -> None:
    """Looks at prefill and decode of each room (a router repeats a rid with a fresh room)."""
    by_room: dict[str, list[Half]] = {}
    for half in halves:
        by_room.setdefault(half.room, []).append(half)
    for room in by_room.values():
        for one, other in combinations(room, 2):
            if one.role != other.role:
                _pair(evidence, one, other, findings)


def _pair(evidence: RunEvidence, one: Half, other: Half, findings: Findings) -> None:
    if one.aborts and other.aborts:
        left, right = codes_of(one, one.aborts[0]), codes_of(other, other.aborts[0])
        broke = _broke(evidence, (one, left), (other, right))
        if not legal_pair(left, right, link_broke=broke):
            text = (
                f"{one.worker} has {left.reason} via {left.via}, "
                f"{other.worker} has {right.reason} via {right.via}"
            )
            findings.fail(f"no legal pair: {text}", rid=one.rid, span=one.aborts[0])
        return
    for told, teller in ((one, other), (other, one)):
        if told.aborts and teller.outcome == "completed" and _via_peer(told):
            text = f"{told.worker} says its peer aborted, but {teller.worker} completed"
            findings.fail(text, rid=told.rid, span=told.aborts[0])


def _broke(
    evidence: RunEvidence, one: tuple[Half, AbortCodes], other: tuple[Half, AbortCodes]
) -> bool:
    """Between the first half's knowing and the second half's end."""
    stamps = [
        stamp
        for _, codes in (one, other)
        for stamp in (codes.received_ns, codes.released_ns)
        if stamp is not None
    ]
    return bool(stamps) and link_broke(evidence, one[0], other[0], min(stamps), max(stamps))


def _via_peer(half: Half) -> bool:
    return codes_of(half, half.aborts[0]).via == PEER
