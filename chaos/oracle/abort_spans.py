"""`abort_spans`: every abort is traced on each role that knew the request, with codes that fit."""

from __future__ import annotations

from itertools import combinations

from chaos.oracle.abort_codes import (
    ASKED,
    CLIENT_DISCONNECT,
    CLIENT_REASONS,
    PEER,
    SHUTDOWN,
    codes_of,
    legal_pair,
    whats_wrong,
)
from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import killed_between, killed_incarnations
from chaos.oracle.findings import Findings, check
from chaos.oracle.requests import Request
from chaos.oracle.root_codes import judge_root
from chaos.oracle.span_index import DECODE, PREFILL, Half
from dashboards.spans import Span

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
    for request in evidence.requests:
        halves = evidence.spans.halves.get(request.rid, ())
        if request.abort_kind is not None or request.server_aborted:
            _traced(evidence, request, halves, findings)
            _timed(request, findings)
            judge_root(evidence, request, findings)
        elif halves:
            findings.saw()
        for half in halves:
            _half(evidence, request, half, findings)
        _pairs(halves, findings)


# ---- is there a span where one must be --------------------------------------------------------


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
    return killed_between(evidence.faults, workers, request.sent.sent_ns, end_ns)


def _surely_routed(request: Request) -> bool:
    """Whether both workers must have had it: a token came back, or there was time enough."""
    end = request.end
    if end is None or end.osl or end.outcome.value == "aborted_server":
        return end is not None
    gone_ns = end.abort.fired_ns if end.abort else end.end_ns
    return gone_ns - request.sent.sent_ns > _ROUTED_WITHIN_NS


# ---- one half ---------------------------------------------------------------------------------


def _half(evidence: RunEvidence, request: Request, half: Half, findings: Findings) -> None:
    if len(half.aborts) > 1:
        text = f"{len(half.aborts)} abort spans on {half.worker}"
        findings.fail(text, rid=request.rid, span=half.aborts[1])
    if half.role_span is not None:
        _outcome(evidence, request, half, half.role_span, findings)
    elif (half.worker, half.incarnation) not in killed_incarnations(evidence.faults):
        text = f"{half.worker} sent spans of it, but no role span"
        findings.doubt(text, rid=request.rid, span=(*half.stages, *half.aborts, None)[0])
    for abort in half.aborts:
        wrong = whats_wrong(half, abort) or _not_permitted(evidence, request, half, abort)
        if wrong:
            findings.fail(f"{half.worker}: {wrong}", rid=request.rid, span=abort)


def _outcome(
    evidence: RunEvidence, request: Request, half: Half, role_span: Span, findings: Findings
) -> None:
    """The role span says how its half ended, and the abort span must agree."""
    if half.outcome == "completed":
        if half.aborts:
            text = f"{half.worker} completed it and aborted it"
            findings.fail(text, rid=request.rid, span=role_span)
        _finished_in_time(evidence, request, half, role_span, findings)
    elif half.outcome != "aborted":
        text = f"the role span on {half.worker} has pd.outcome {half.outcome!r}"
        findings.fail(text, rid=request.rid, span=role_span)
    elif request.completed and half.role == DECODE and request.asked_abort is None:
        text = f"{half.worker} aborted it, yet the client got a whole answer"
        findings.fail(text, rid=request.rid, span=role_span)
    elif not half.aborts:
        text = f"{half.worker} aborted it without an abort span"
        findings.fail(text, rid=request.rid, span=role_span)
    else:
        _copied(half, role_span, half.aborts[0], findings)


def _copied(half: Half, role_span: Span, abort: Span, findings: Findings) -> None:
    for key in ("pd.abort.reason", "pd.abort.origin", "pd.abort.via", "pd.abort.stage"):
        if role_span.text(key) != abort.text(key):
            text = f"{key} is {role_span.text(key)} on the role span, {abort.text(key)} on abort"
            findings.fail(f"{half.worker}: {text}", rid=half.rid, span=role_span)


def _finished_in_time(
    evidence: RunEvidence, request: Request, half: Half, role_span: Span, findings: Findings
) -> None:
    """A half may run to its end only if that came before the abort could reach it."""
    end = request.end
    if end is None or request.completed:
        return
    given_up_ns = end.abort.fired_ns if end.abort else end.end_ns
    late_ms = (evidence.spans.mono(role_span.end_ns) - given_up_ns) / 1e6
    if late_ms > evidence.plan.expect.abort_seen_ms:
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
        on = fault.covers(at_ns, after_s) and fault.touches(half.worker)
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


# ---- both halves ------------------------------------------------------------------------------


def _pairs(halves: tuple[Half, ...], findings: Findings) -> None:
    by_room: dict[str, list[Half]] = {}
    for half in halves:
        by_room.setdefault(half.room, []).append(half)
    for room in by_room.values():
        for one, other in combinations(room, 2):
            if one.role != other.role:
                _pair(one, other, findings)


def _pair(one: Half, other: Half, findings: Findings) -> None:
    if one.aborts and other.aborts:
        left, right = codes_of(one, one.aborts[0]), codes_of(other, other.aborts[0])
        if not legal_pair(left, right):
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


def _via_peer(half: Half) -> bool:
    return codes_of(half, half.aborts[0]).via == PEER
