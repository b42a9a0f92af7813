"""`abort_spans`: every abort is traced on each role that knew the request, with codes that fit."""

from __future__ import annotations

from chaos.oracle.abort_half import judge_half
from chaos.oracle.abort_pairs import judge_pairs
from chaos.oracle.abort_rows import slowest_seen_ms
from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.oracle.requests import Request
from chaos.oracle.root_codes import judge_root
from chaos.oracle.silenced import spans_may_be_lost
from chaos.oracle.span_index import DECODE, PREFILL, Half

_RACE_MS = 500.0
_ROUTED_WITHIN_NS = 1_000_000_000
"""An abort this soon after the sending may never have reached a worker."""


@check(
    "abort_spans",
    "each aborted request has one abort span on each role that knew it, with permitted codes",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    Source.SPANS,
)
def check_abort_spans(evidence: RunEvidence, findings: Findings) -> None:
    """Also the other way round: an abort that no client asked for and no fault permits is a failure."""
    findings.noun = "requests"
    race_ms = _race_ms(evidence)
    for request in evidence.requests:
        halves = evidence.spans.halves.get(request.rid, ())
        if request.abort_kind is not None or request.server_aborted:
            _traced(evidence, request, halves, findings)
            _timed(request, findings)
            judge_root(evidence, request, findings)
        elif halves:
            findings.saw()
        for half in halves:
            judge_half(evidence, request, half, race_ms, findings)
        judge_pairs(evidence, halves, findings)


def _race_ms(evidence: RunEvidence) -> float:
    """An abort travels no slower than the slowest one of this run that was seen, twice over."""
    return min(evidence.plan.expect.abort_seen_ms, max(_RACE_MS, 2 * slowest_seen_ms(evidence)))


def _traced(
    evidence: RunEvidence, request: Request, halves: tuple[Half, ...], findings: Findings
) -> None:
    roles = {half.role for half in halves if half.role_span is not None}
    missing = [role for role in (PREFILL, DECODE) if role not in roles]
    excused = [role for role in missing if _role_was_dead(evidence, request, role)]
    if excused:
        findings.exempt()
    elif missing and _surely_routed(request):
        text = f"no role span of {' and '.join(missing)}: its spans are lost"
        findings.doubt(text, rid=request.rid)
    elif not roles:
        findings.exempt()
    if roles:
        findings.saw()


def _timed(request: Request, findings: Findings) -> None:
    end = request.end
    if request.abort_kind is not None and end is not None and end.abort is None:
        findings.doubt("the history does not say when the client gave up", rid=request.rid)


def _role_was_dead(evidence: RunEvidence, request: Request, role: str) -> bool:
    plan, end = evidence.plan, request.end
    workers = plan.prefill_workers if role == PREFILL else plan.decode_workers
    end_ns = end.end_ns if end else request.sent.sent_ns
    return spans_may_be_lost(evidence, workers, request.sent.sent_ns, end_ns)


def _surely_routed(request: Request) -> bool:
    """Whether both workers must have had it: a token came back, or there was time enough."""
    end = request.end
    if end is None or end.osl or end.outcome.value == "aborted_server":
        return end is not None
    gone_ns = end.abort.fired_ns if end.abort else end.end_ns
    return gone_ns - request.sent.sent_ns > _ROUTED_WITHIN_NS
