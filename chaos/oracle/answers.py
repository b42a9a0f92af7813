"""`answers` and `adds_up`: every request has one terminal answer, and the counts agree everywhere."""

from __future__ import annotations

from collections import Counter

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.oracle.paths import may_meet
from chaos.oracle.plan import Plan
from chaos.oracle.requests import Request
from chaos.oracle.span_index import Half
from chaos.oracle.summary import count_requests
from loadtest.history import End, Outcome


@check(
    "answers",
    "every request that was sent has exactly one terminal answer",
    Source.RUN,
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
)
def check_answers(evidence: RunEvidence, findings: Findings) -> None:
    """A `sent` without an `end` is hung. Needs the history and, to excuse a cut stream, the faults."""
    findings.noun = "requests"
    findings.saw(len(evidence.requests))
    for request in evidence.requests:
        if request.end is None:
            _hung(evidence, request, findings)
        elif len(request.ends) > 1:
            findings.fail(f"ended {len(request.ends)} times", rid=request.rid)
        else:
            _one_answer(evidence, request.end, findings)
    for end in evidence.history.stray_ends:
        findings.doubt("ended, but was never sent", rid=end.rid)


def _hung(evidence: RunEvidence, request: Request, findings: Findings) -> None:
    """A run that was cut short may have taken the client away before the answer came."""
    cut_ns = evidence.cut_ns
    if cut_ns is None:
        findings.fail("was sent and never ended (hung)", rid=request.rid)
        return
    age_s = (cut_ns - request.sent.sent_ns) / 1e9
    if age_s > evidence.plan.server_abort_s:
        findings.fail(f"was open for {age_s:.1f} s when the run was cut short", rid=request.rid)
    else:
        findings.doubt("was open when the run was cut short", rid=request.rid)


def _one_answer(evidence: RunEvidence, end: End, findings: Findings) -> None:
    if end.num_answers > 1:
        findings.fail(f"got {end.num_answers} terminal answers", rid=end.rid)
    elif end.num_answers == 0 and end.outcome in (Outcome.COMPLETED, Outcome.ABORTED_SERVER):
        findings.fail(f"{end.outcome} without a terminal answer", rid=end.rid)
    elif end.num_answers == 0 and end.outcome is Outcome.ABORTED_RID:
        _unanswered_abort(evidence, end, findings)


def _unanswered_abort(evidence: RunEvidence, end: End, findings: Findings) -> None:
    """An abort by rid is answered on the stream, unless a fault on its way took the stream away."""
    after_s = evidence.plan.expect.recovery_first_success_s
    met = [fault for fault in evidence.faults if fault.covers(end.end_ns, after_s)]
    if any(may_meet(evidence, fault, end.rid) for fault in met):
        findings.exempt()
    else:
        findings.fail("aborted by rid, and its stream got no final answer", rid=end.rid)


@check(
    "adds_up",
    "requests = completed + aborted + aborted_server + failed; each rid sent once and served once",
    Source.SCENARIO,
    Source.HISTORY,
    Source.EVENTS,
    wants=(Source.SPANS,),
)
def check_adds_up(evidence: RunEvidence, findings: Findings) -> None:
    """The client's counts against themselves and against the workers' role spans."""
    findings.noun = "requests"
    findings.saw(len(evidence.requests))
    counts = count_requests(evidence)
    parts = counts.completed + sum(
        sum(one.values()) for one in (counts.aborted, counts.aborted_server, counts.failed)
    )
    findings.note = f"{counts.total} requests, {parts} outcomes"
    if parts != counts.total:
        findings.fail(f"{counts.total} requests, but {parts} outcomes")
    for sent in evidence.history.repeated:
        findings.fail("was sent twice under one rid", rid=sent.rid)
    for rid, halves in evidence.spans.halves.items():
        _served_once(evidence.plan, rid, halves, findings)
    _unknown_rids(evidence, findings)


def _served_once(plan: Plan, rid: str, halves: tuple[Half, ...], findings: Findings) -> None:
    """One role span a (rid, room) and role; the router may repeat a rid, with a fresh room."""
    for half in halves:
        if len(half.role_spans) > 1:
            text = f"{half.worker} served room {half.room} {len(half.role_spans)} times"
            findings.fail(text, rid=rid, span=half.role_spans[1])
    tries = Counter(half.role for half in halves if half.role_spans)
    for role, count in tries.items():
        if count > plan.deployment.router.retries + 1:
            findings.fail(f"{count} {role} role spans for one rid", rid=rid)


def _unknown_rids(evidence: RunEvidence, findings: Findings) -> None:
    """What the workers served during the load must be in the history."""
    begins, ends = evidence.phase_times("load"), evidence.phase_times("probe")
    if not begins or not ends:
        findings.doubt("events.jsonl does not say when load and probe began")
        return
    known = {request.rid for request in evidence.requests}
    for rid, halves in evidence.spans.halves.items():
        spans = [] if rid in known else [span for half in halves for span in half.role_spans]
        for span in spans:
            if begins[0] <= evidence.spans.mono(span.start_ns) < ends[0]:
                findings.doubt(
                    "a worker served it, the history does not know it", rid=rid, span=span
                )
