"""`late`: no request ends later than its bound."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import TELEMETRY, FaultWindow
from chaos.oracle.findings import Findings, check
from chaos.oracle.paths import did_meet, may_meet
from chaos.oracle.requests import Request
from chaos.oracle.span_index import DECODE, PREFILL
from dashboards.spans import Span
from loadtest.history import End, Outcome

_TIMER_SLACK_S = 1.0
_DEADLINE_SLACK_S = 2.0
_WAITS_FOR_PEER = {
    PREFILL: frozenset({"queue", "kv.transfer"}),
    DECODE: frozenset({"queue", "decode.wait_kv"}),
}
"""Stages in which a half has joined with its peer and needs it."""
_SURELY_JOINED_NS = 1_000_000_000
"""A request sent that long before a cut has been joined by both halves."""
_AFTER_JOIN = ("queue", "prefill.chunk", "kv.transfer")
"""Stages of prefill that begin only when decode has joined."""


@check(
    "late",
    "no request ends after its bound",
    Source.RUN,
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    wants=(Source.SPANS,),
)
def check_late(evidence: RunEvidence, findings: Findings) -> None:
    """Three bounds: the client's timeout for all; for those that a fault ended, the engine's deadlines;
    and for those that a dead peer must have ended, the time in which peers notice death. Spans, where
    there are any, show which requests those are."""
    plan = evidence.plan
    findings.expected = (
        f"every request ends within {plan.load.request_timeout_s:g} s; one that a fault ended within "
        f"{plan.server_abort_s:g} s of meeting it, or {plan.dead_peer_abort_s:g} s of its peer's death"
    )
    findings.noun = "requests"
    slowest = 0.0
    for request in evidence.requests:
        end = request.end
        if end is None or end.outcome is Outcome.NOT_SENT:
            continue
        findings.saw()
        age_s = (end.end_ns - request.sent.sent_ns) / 1e9
        slowest = max(slowest, age_s)
        if age_s < 0:
            findings.doubt("ended before it was sent", rid=request.rid)
        if age_s > plan.load.request_timeout_s + _TIMER_SLACK_S:
            findings.fail(f"{end.outcome} after {age_s:.1f} s", rid=request.rid)
        elif request.server_failed:
            _after_fault(evidence, request, end, findings)
    for fault in evidence.faults:
        if fault.cuts_control(plan.deployment.worker.peer_dead_after_s + 1.0):
            _halves_after_death(evidence, fault, findings)
    _handshakes(evidence, findings)
    findings.note = f"the slowest took {slowest:.1f} s"


def _after_fault(evidence: RunEvidence, request: Request, end: End, findings: Findings) -> None:
    """The first fault that a request met is the one that had to end it."""
    plan = evidence.plan
    met = [
        fault
        for fault in evidence.faults
        if fault.kind != TELEMETRY
        and fault.overlaps(request.sent.sent_ns, end.end_ns)
        and may_meet(evidence, fault, request.rid)
    ]
    if not met:
        return
    first = min(met, key=lambda fault: fault.begin_ns or 0)
    bound_s = plan.server_abort_s
    if _must_notice(evidence, request, first):
        bound_s = plan.dead_peer_abort_s
    took_s = (end.end_ns - max(request.sent.sent_ns, first.sure_begin_ns)) / 1e9
    if took_s > bound_s:
        findings.fail(
            f"{end.outcome} {took_s:.1f} s after it met {first.label}, bound {bound_s:g} s",
            rid=request.rid,
        )


def _halves_after_death(evidence: RunEvidence, fault: FaultWindow, findings: Findings) -> None:
    """No half that was joined when its peer died may still wait for it long after.

    Its own spans say so, whatever the client saw: a half that joined after the cut began met a session that
    was dead already, and is hit by the same verdict.
    """
    begin_ns = fault.sure_begin_ns
    dead_ns = begin_ns + int(evidence.plan.deployment.worker.peer_dead_after_s * 1e9)
    bound_ns = begin_ns + int(evidence.plan.dead_peer_abort_s * 1e9)
    mono = evidence.spans.mono
    for rid, halves in evidence.spans.halves.items():
        if not may_meet(evidence, fault, rid):
            continue
        for half in halves:
            if half.worker in fault.workers:
                continue  # who is stopped notices nothing
            for span in half.stages:
                waits = span.name in _WAITS_FOR_PEER[half.role]
                joined = mono(span.start_ns) < dead_ns
                if waits and joined and mono(span.end_ns) > bound_ns:
                    late_s = (mono(span.end_ns) - begin_ns) / 1e9
                    findings.fail(
                        f"{half.worker} still had it in {span.name} {late_s:.1f} s into {fault.label}",
                        rid=half.rid,
                        span=span,
                    )


def _handshakes(evidence: RunEvidence, findings: Findings) -> None:
    """Decode looks for its prefill no longer than the bootstrap deadline, whatever its client does."""
    timeout_s = evidence.plan.deployment.worker.bootstrap_timeout_s
    for halves in evidence.spans.halves.values():
        for half in halves:
            for span in half.stages if half.role == DECODE else ():
                took_s = (span.end_ns - span.start_ns) / 1e9
                if span.name != "bootstrap" or took_s <= timeout_s + _DEADLINE_SLACK_S:
                    continue
                if not _was_stopped(evidence, half.worker, span):
                    text = f"{half.worker} looked for its prefill for {took_s:.1f} s"
                    findings.fail(f"{text}, deadline {timeout_s:g} s", rid=half.rid, span=span)


def _was_stopped(evidence: RunEvidence, worker: str, span: Span) -> bool:
    """A fault on the worker itself held its clock of deadlines up."""
    mono = evidence.spans.mono
    return any(
        worker in fault.workers and fault.overlaps(mono(span.start_ns), mono(span.end_ns))
        for fault in evidence.faults
    )


def _must_notice(evidence: RunEvidence, request: Request, fault: FaultWindow) -> bool:
    """Whether both halves had met before they lost each other: then the dead verdict must hit it."""
    begin_ns = fault.begin_ns
    if begin_ns is None:
        return False
    if not fault.cuts_control(evidence.plan.deployment.worker.peer_dead_after_s + 1.0):
        return False
    if not did_meet(evidence, fault, request):
        return False
    if request.sent.sent_ns <= begin_ns - _SURELY_JOINED_NS:
        return True
    mono = evidence.spans.mono
    return any(
        span.name in _AFTER_JOIN and mono(span.start_ns) < begin_ns
        for half in evidence.spans.of(request.rid, PREFILL)
        for span in half.stages
    )
