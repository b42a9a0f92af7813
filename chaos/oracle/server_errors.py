"""`server_errors`: bare errors reach a client only while a fault explains them. Also `send_lag`."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import FaultWindow
from chaos.oracle.findings import Findings, check
from chaos.oracle.paths import may_meet
from chaos.oracle.requests import Request
from chaos.oracle.summary import percentile
from loadtest.history import End, Outcome

_CLIENT_STATUS = range(400, 500)


@check(
    "server_errors",
    "bare HTTP errors, broken and truncated streams only while a killed worker explains them",
    Source.RUN,
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
)
def check_server_errors(evidence: RunEvidence, findings: Findings) -> None:
    """Only a killed worker explains them: after a cut link the workers live, and must answer in form
    (``aborted_server``, with a reason)."""
    findings.noun = "requests"
    findings.saw(len(evidence.requests))
    after_s = evidence.plan.expect.recovery_first_success_s
    for request in evidence.requests:
        end = request.end
        if end is None or not request.errored:
            continue
        explained = any(
            _explains(fault, end, after_s) and may_meet(evidence, fault, request.rid)
            for fault in evidence.faults
        )
        if explained:
            findings.exempt()
        elif evidence.cut_off(request):
            findings.doubt("was open when the run was cut short", rid=request.rid)
        else:
            findings.fail(_describe(request, end), rid=request.rid)


def _explains(fault: FaultWindow, end: End, after_s: float) -> bool:
    """The dead worker's clients get the router's own errors, never one that blames the client."""
    if not fault.stops_worker or not fault.covers(end.end_ns, after_s):
        return False
    return end.outcome is not Outcome.HTTP_ERROR or end.status not in _CLIENT_STATUS


def _describe(request: Request, end: End) -> str:
    status = f" HTTP {end.status}" if end.status else ""
    message = f": {end.error_message[:200]}" if end.error_message else ""
    return f"{request.outcome}{status}, and no fault explains it{message}"


@check("send_lag", "requests are sent when they are due", Source.SCENARIO, Source.HISTORY)
def check_send_lag(evidence: RunEvidence, findings: Findings) -> None:
    """A driver that falls behind measures itself: then the run is not valid."""
    limit_ms = evidence.plan.expect.send_lag_p99_ms
    findings.expected = f"p99 of sent - due is at most {limit_ms:g} ms"
    findings.noun = "requests"
    lags = sorted(
        (request.sent.sent_ns - request.sent.scheduled_ns) / 1e6 for request in evidence.requests
    )
    findings.saw(len(lags))
    worst = percentile(lags, 0.99)
    if worst is None:
        return
    findings.note = f"p99 {worst:.1f} ms"
    if worst > limit_ms:
        findings.doubt(f"p99 of the send lag is {worst:.0f} ms, limit {limit_ms:g} ms")
    if lags[0] < -1.0:
        findings.doubt(f"a request was sent {-lags[0]:.0f} ms before it was due")
