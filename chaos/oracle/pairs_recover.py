"""`pairs_recover`: each pair that a fault hurt serves again after the heal; one that stays broken fails.

`recovery` asks for one success somewhere; with several pairs the others would hide the broken one.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import FaultWindow, pair_of
from chaos.oracle.findings import Findings, check
from chaos.oracle.requests import Request

Pair = tuple[str, str]


@check(
    "pairs_recover",
    "after each heal every pair that was hurt completes requests again",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    Source.SPANS,
)
def check_pairs_recover(evidence: RunEvidence, findings: Findings) -> None:
    """Until the next fault on the same pair, or the end of the load. A pair that nobody tried is unknown."""
    findings.noun = "hurt pairs"
    served = {one.rid: set(_pairs_of(evidence, one)) for one in evidence.requests}
    for fault in evidence.faults:
        for pair in _hurt(evidence, fault):
            if fault.healed_ns is None:
                findings.doubt(f"{_name(pair)}: {fault.label} was not healed")
            else:
                _judge(evidence, fault, pair, fault.healed_ns, served, findings)


def _judge(
    evidence: RunEvidence,
    fault: FaultWindow,
    pair: Pair,
    healed_ns: int,
    served: dict[str, set[Pair]],
    findings: Findings,
) -> None:
    """Where the next fault came too soon to say, what comes after it may still show that the pair lives."""
    tried = [one for one in evidence.requests if _tries(evidence, one, pair, healed_ns, served)]
    until_ns = _next_on(evidence, pair, healed_ns)
    in_time = [one for one in tried if until_ns is None or (one.end and one.end.end_ns < until_ns)]
    grace_ns = int(evidence.plan.expect.recovery_first_success_s * 1e9)
    late = [one for one in in_time if one.sent.sent_ns > healed_ns + grace_ns]
    if late and not any(one.completed for one in in_time):
        findings.saw()
        text = f"{_name(pair)} completed none of {len(in_time)} requests after {fault.label}"
        findings.fail(text, rid=late[-1].rid)
    elif any(one.completed for one in tried):
        findings.saw()
    else:
        text = f"{len(tried)} requests tried it after {fault.label}, none long after"
        findings.doubt(f"{_name(pair)}: {text}")


def _tries(
    evidence: RunEvidence,
    request: Request,
    pair: Pair,
    healed_ns: int,
    served: dict[str, set[Pair]],
) -> bool:
    is_after = pair in served[request.rid] and request.sent.sent_ns > healed_ns
    return is_after and request.abort_kind is None and not evidence.cut_off(request)


def _hurt(evidence: RunEvidence, fault: FaultWindow) -> Iterator[Pair]:
    for prefill in evidence.plan.prefill_workers:
        for decode in evidence.plan.decode_workers:
            pair = (prefill, decode)
            on_link = any(pair == pair_of(link) for link in fault.links)
            if on_link or set(pair) & set(fault.workers):
                yield pair


def _next_on(evidence: RunEvidence, pair: Pair, after_ns: int) -> int | None:
    begins = [
        fault.begin_ns
        for fault in evidence.faults
        if fault.begin_ns is not None
        and fault.begin_ns > after_ns
        and pair in set(_hurt(evidence, fault))
    ]
    return min(begins, default=None)


def _pairs_of(evidence: RunEvidence, request: Request) -> Iterator[Pair]:
    """Pairs of which both halves are known, one a room."""
    rooms: dict[str, dict[str, str]] = {}
    for half in evidence.spans.halves.get(request.rid, ()):
        rooms.setdefault(half.room, {})[half.role] = half.worker
    for workers in rooms.values():
        if len(workers) == 2:
            yield workers["prefill"], workers["decode"]


def _name(pair: Pair) -> str:
    return "-".join(pair)
