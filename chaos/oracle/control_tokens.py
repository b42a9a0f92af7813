"""`tokens_equal_control`: survivors got the tokens that a unified worker without proxies gives."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.oracle.requests import Request
from loadtest.history import End

NEAR_TIE = {"float32": 1e-3, "bfloat16": 0.125}
"""Below this margin of the two best logits, either token is right: by what rounding can do, by dtype."""


@check(
    "tokens_equal_control",
    "output tokens equal those of the control run",
    Source.SCENARIO,
    Source.HISTORY,
    Source.CONTROL,
    wants=(Source.SPANS,),
)
def check_tokens_equal_control(evidence: RunEvidence, findings: Findings) -> None:
    """Needs at least ``expect.control_requests`` pairs that could be compared whole."""
    wanted = evidence.plan.expect.control_requests
    findings.expected = f"at least {wanted} completed requests, each with the control run's tokens"
    findings.noun = "pairs"
    by_rid = {request.rid: request for request in evidence.requests}
    near_tie = NEAR_TIE.get(evidence.plan.deployment.worker.dtype, NEAR_TIE["float32"])
    for control in evidence.control.requests:
        if evidence.can_show(Source.SPANS) and control.sent.trace_id not in evidence.spans.unified:
            findings.doubt("no unified worker served this control request", rid=control.rid)
        _compare(by_rid.get(control.rid), control, near_tie, findings)
    if findings.examined < wanted:
        findings.doubt(f"{findings.examined} pairs compared, {wanted} wanted")


def _compare(
    request: Request | None, control: Request, near_tie: float, findings: Findings
) -> None:
    if request is None:
        findings.doubt("the control run repeated a request that was never sent", rid=control.rid)
        return
    if not request.completed or not control.completed:
        return
    if _question(request) != _question(control):
        findings.doubt("the control run asked something else", rid=request.rid)
        return
    got, want = request.end, control.end
    if got is None or want is None or not got.output_ids or not want.output_ids:
        findings.doubt("completed without output_ids, nothing to compare", rid=request.rid)
        return
    index = first_difference(got.output_ids, want.output_ids)
    if index is not None and _is_near_tie(got, index, want, near_tie):
        findings.exempt()
        return
    findings.saw()
    if index is not None:
        findings.fail(_difference(got, want, index), rid=request.rid)


def _question(request: Request) -> tuple[int, int, int, int]:
    sent = request.sent
    return sent.prompt_seed, sent.index, sent.isl, sent.max_new_tokens


def first_difference(left: tuple[int, ...], right: tuple[int, ...]) -> int | None:
    """Index of the first token that differs or that one side lacks; None if equal."""
    if left == right:
        return None
    pairs = zip(left, right, strict=False)
    shorter = min(len(left), len(right))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), shorter)


def _is_near_tie(got: End, index: int, want: End, near_tie: float) -> bool:
    """Both sides must hold a token there: a missing token is no tie.

    If rounding alone swapped the two best, the logits moved by both margins together: so both must be
    small. A wrong cache that happens to be unsure of itself is no tie, if the control was sure.
    """
    if index >= min(len(got.output_ids), len(want.output_ids)):
        return False
    margins = [end.margins[index] for end in (got, want) if index < len(end.margins)]
    return bool(margins) and all(0 <= margin < near_tie for margin in margins)


def _difference(got: End, want: End, index: int) -> str:
    length = f"{len(got.output_ids)} tokens against {len(want.output_ids)}"
    if index >= min(len(got.output_ids), len(want.output_ids)):
        return f"{length}, equal up to there"
    return f"token {index} is {got.output_ids[index]}, the control has {want.output_ids[index]}"
