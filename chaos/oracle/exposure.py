"""`exposed`: requests that were in a link's or a worker's stage while a fault was on."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import TELEMETRY, FaultWindow, pair_of
from chaos.oracle.paths import did_meet
from chaos.oracle.requests import Request
from chaos.oracle.span_index import Half

_USES: dict[str, frozenset[str]] = {
    "kv": frozenset({"kv.transfer", "decode.wait_kv", "prefill.chunk"}),
    "control": frozenset({"bootstrap", "queue", "kv.transfer", "decode.wait_kv"}),
    "bootstrap": frozenset({"bootstrap"}),
}
"""Spans that show a request in need of a link."""


def exposed_rids(evidence: RunEvidence, fault: FaultWindow) -> set[str]:
    """Rids of the load that the fault met. A killed worker's spans are lost: there the history counts."""
    begin_ns = fault.injected_ns
    if begin_ns is None or fault.begin_ns is None:
        return set()
    if fault.kind == TELEMETRY or not evidence.can_show(Source.SPANS):
        return {one.rid for one in evidence.requests if _was_open(one, fault, begin_ns)}
    if fault.workers:
        # From before the signal: those that it hit end before the line that says it was sent.
        begin_ns = fault.begin_ns
        return {one.rid for one in evidence.requests if _met_kill(evidence, fault, one, begin_ns)}
    return {one.rid for one in evidence.requests if _met_cut(evidence, fault, one, begin_ns)}


def _met_cut(evidence: RunEvidence, fault: FaultWindow, request: Request, begin_ns: int) -> bool:
    if not did_meet(evidence, fault, request):
        return False
    halves = evidence.spans.halves.get(request.rid, ())
    return any(
        _in_need(evidence, half, link, begin_ns, fault.end_ns)
        for link in fault.links
        for half in halves
        if half.worker in pair_of(link)
    )


def _in_need(evidence: RunEvidence, half: Half, link: str, begin_ns: int, end_ns: float) -> bool:
    uses = _USES.get(link.partition(":")[0], frozenset())
    mono = evidence.spans.mono
    return any(
        span.name in uses and mono(span.start_ns) <= end_ns and mono(span.end_ns) >= begin_ns
        for span in half.stages
    )


def _was_open(request: Request, fault: FaultWindow, begin_ns: int) -> bool:
    """Where the target has no spans, that is all that is known."""
    end = request.end
    return request.sent.sent_ns <= fault.end_ns and (end is None or end.end_ns >= begin_ns)


def _met_kill(evidence: RunEvidence, fault: FaultWindow, request: Request, begin_ns: int) -> bool:
    """Open at the kill or sent before the heal, and on that worker as far as anybody knows."""
    if not _was_open(request, fault, begin_ns):
        return False
    return did_meet(evidence, fault, request)
