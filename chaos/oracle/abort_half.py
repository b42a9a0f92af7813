"""One half of a request: how its role span says it ended, and whether its abort was anybody's wish."""

from __future__ import annotations

from chaos.oracle.abort_codes import (
    ASKED,
    CLIENT_DISCONNECT,
    CLIENT_REASONS,
    SHUTDOWN,
    codes_of,
    whats_wrong,
)
from chaos.oracle.evidence import RunEvidence
from chaos.oracle.fault_window import killed_between, killed_incarnations
from chaos.oracle.findings import Findings
from chaos.oracle.paths import may_meet
from chaos.oracle.requests import Request
from chaos.oracle.silenced import collector_away
from chaos.oracle.span_index import DECODE, Half
from dashboards.spans import Span


def judge_half(
    evidence: RunEvidence, request: Request, half: Half, race_ms: float, findings: Findings
) -> None:
    """``race_ms``: how long after a client's act a half may still come to its normal end."""
    if len(half.aborts) > 1:
        text = f"{len(half.aborts)} abort spans on {half.worker}"
        findings.fail(text, rid=request.rid, span=half.aborts[1])
    if len(half.releases) > max(1, len(half.aborts)):
        text = f"{half.worker} released it {len(half.releases)} times for one abort"
        findings.fail(text, rid=request.rid, span=half.releases[1])
    if half.role_span is not None:
        _outcome(evidence, request, half, half.role_span, race_ms, findings)
    elif _without_collector(evidence, request):
        findings.exempt()
    elif (half.worker, half.incarnation) not in killed_incarnations(evidence.faults):
        text = f"{half.worker} sent spans of it, but no role span"
        findings.doubt(text, rid=request.rid, span=(*half.stages, *half.aborts, None)[0])
    for abort in half.aborts:
        wrong = whats_wrong(half, abort) or _not_permitted(evidence, request, half, abort)
        if wrong:
            findings.fail(f"{half.worker}: {wrong}", rid=request.rid, span=abort)


def _outcome(
    evidence: RunEvidence,
    request: Request,
    half: Half,
    role_span: Span,
    race_ms: float,
    findings: Findings,
) -> None:
    """The role span says how its half ended, and the abort span must agree."""
    if half.outcome == "completed":
        if half.aborts:
            text = f"{half.worker} completed it and aborted it"
            findings.fail(text, rid=request.rid, span=role_span)
        _finished_in_time(evidence, request, half, role_span, race_ms, findings)
    elif half.outcome != "aborted":
        text = f"the role span on {half.worker} has pd.outcome {half.outcome!r}"
        findings.fail(text, rid=request.rid, span=role_span)
    elif request.completed and half.role == DECODE and request.asked_abort is None:
        text = f"{half.worker} aborted it, yet the client got a whole answer"
        findings.fail(text, rid=request.rid, span=role_span)
    elif not half.aborts and _died_with_it(evidence, request, half):
        findings.exempt()
    elif not half.aborts:
        text = f"{half.worker} aborted it without an abort span"
        findings.fail(text, rid=request.rid, span=role_span)
    else:
        _copied(half, role_span, half.aborts[0], findings)


def _died_with_it(evidence: RunEvidence, request: Request, half: Half) -> bool:
    """The worker was killed before it had sent all spans of this request, or nobody took them."""
    if _without_collector(evidence, request):
        return True
    end_ns = request.end.end_ns if request.end else request.sent.sent_ns
    sent_ns = request.sent.sent_ns
    return (half.worker, half.incarnation) in killed_incarnations(
        evidence.faults
    ) and killed_between(evidence.faults, [half.worker], sent_ns, end_ns)


def _without_collector(evidence: RunEvidence, request: Request) -> bool:
    end_ns = request.end.end_ns if request.end else request.sent.sent_ns
    return collector_away(evidence, request.sent.sent_ns, end_ns)


def _copied(half: Half, role_span: Span, abort: Span, findings: Findings) -> None:
    for key in ("pd.abort.reason", "pd.abort.origin", "pd.abort.via", "pd.abort.stage"):
        if role_span.text(key) != abort.text(key):
            text = f"{key} is {role_span.text(key)} on the role span, {abort.text(key)} on abort"
            findings.fail(f"{half.worker}: {text}", rid=half.rid, span=role_span)


def _finished_in_time(
    evidence: RunEvidence,
    request: Request,
    half: Half,
    role_span: Span,
    race_ms: float,
    findings: Findings,
) -> None:
    """A half may run to its end only if that came before the abort could reach it."""
    end = request.end
    if end is None or request.completed:
        return
    given_up_ns = end.abort.fired_ns if end.abort else end.end_ns
    late_ms = (evidence.spans.mono(role_span.end_ns) - given_up_ns) / 1e6
    if late_ms > (race_ms if end.abort else evidence.plan.expect.abort_seen_ms):
        text = f"{half.worker} ran on for {late_ms:.0f} ms after it was {end.outcome}"
        findings.fail(text, rid=request.rid, span=role_span)


def _not_permitted(evidence: RunEvidence, request: Request, half: Half, abort: Span) -> str | None:
    """Neither the client asked for this reason, nor does a fault explain it."""
    codes = codes_of(half, abort)
    kind = request.asked_abort
    if kind is not None and codes.reason in ASKED[kind]:
        return None
    if evidence.cut_off(request) and codes.reason in (CLIENT_DISCONNECT, SHUTDOWN):
        return None
    at_ns = codes.received_ns or evidence.spans.mono(abort.start_ns)
    after_s = evidence.plan.expect.recovery_first_success_s
    for fault in evidence.faults:
        on = fault.covers(at_ns, after_s) and may_meet(evidence, fault, half.rid)
        if on and codes.reason in fault.permits:
            return _dropped_for_nothing(evidence, request, codes.reason)
    asked = f"the client asked for {kind}" if kind else "no client asked"
    return f"aborted with {codes.reason}: {asked} and no fault permits it"


def _dropped_for_nothing(evidence: RunEvidence, request: Request, reason: str) -> str | None:
    """A fault explains a client_disconnect only as the router's: its other half had an error."""
    if reason != CLIENT_DISCONNECT or request.errored:
        return None
    halves = evidence.spans.halves.get(request.rid, ())
    reasons = {codes_of(half, abort).reason for half in halves for abort in half.aborts}
    if reasons - CLIENT_REASONS or len(halves) < 2:
        return None
    return "aborted with client_disconnect: no client left, and no half had an error"
