"""`harmless_cuts`: a cut or a pause too short to be a death hurts nobody: no abort, nothing lost (DESIGN 7).

A fault permits abort codes however short it was; this check is what a false death verdict, or a frame
that is lost and never sent again, cannot hide behind.
"""

from __future__ import annotations

from itertools import zip_longest

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import FaultWindow, link_kind
from chaos.oracle.findings import Findings, check
from chaos.oracle.paths import did_meet
from chaos.oracle.plan import FaultPlan, Plan
from chaos.oracle.requests import Request

CUTS = frozenset(
    {"stall", "blackhole", "refuse", "reset", "one_way", "trickle", "latency", "cut_after", "flap"}
)
"""Every mode of a link: none takes more away than a full cut of the same length."""
_PAUSE = "pause"
KV_S = 2.0
CONTROL_MARGIN_S = 0.5
"""A beat may be on its way for so long: control may be cut for the dead-after time less this."""


@check(
    "harmless_cuts",
    "a cut too short to be a death hurts nobody",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
)
def check_harmless_cuts(evidence: RunEvidence, findings: Findings) -> None:
    """Looks at requests that were open during such a cut and that no other fault can have met."""
    control_s = harmless_s(evidence.plan, ("control:",))
    findings.expected = (
        f"control cut for at most {control_s:g} s and kv for {KV_S:g} s: no request is aborted"
    )
    findings.noun = "requests in short cuts"
    meant = [is_short(evidence.plan, step.fault) for step in evidence.plan.method]
    for fault, meant_short in zip_longest(evidence.faults, meant, fillvalue=None):
        if fault is None:
            continue
        if _is_short(evidence.plan, fault):
            _judge(evidence, fault, findings)
        elif meant_short:
            findings.doubt(
                f"{fault.label}: was on for {_lasted_s(fault):.1f} s, no longer harmless"
            )


def harmless_s(plan: Plan, links: tuple[str, ...]) -> float:
    """How long these links may be cut, or a worker stopped (no links), and nobody notices."""
    if links and all(link_kind(link) == "kv" for link in links):
        return KV_S
    return max(0.0, plan.deployment.worker.peer_dead_after_s - CONTROL_MARGIN_S)


def is_short(plan: Plan, fault: FaultPlan) -> bool:
    """Whether the scenario asks for a cut that must be harmless."""
    return _silences(fault.mode) and 0 < (fault.for_s or 0.0) <= harmless_s(plan, fault.links)


def _is_short(plan: Plan, fault: FaultWindow) -> bool:
    return _silences(fault.mode) and _lasted_s(fault) <= harmless_s(plan, fault.links)


def _silences(mode: str) -> bool:
    """A stopped worker looks to its peers like a cut of control."""
    return mode in CUTS or mode == _PAUSE


def _lasted_s(fault: FaultWindow) -> float:
    """At most: from before it was made until it was surely gone."""
    return (fault.end_ns - (fault.begin_ns or 0)) / 1e9


def _judge(evidence: RunEvidence, fault: FaultWindow, findings: Findings) -> None:
    for request in evidence.requests:
        begin_ns = fault.begin_ns or 0
        is_in = request.sent.sent_ns <= fault.end_ns and (
            request.end is None or request.end.end_ns >= begin_ns
        )
        if is_in and did_meet(evidence, fault, request):
            _one(evidence, fault, request, findings)


def _one(evidence: RunEvidence, fault: FaultWindow, request: Request, findings: Findings) -> None:
    end = request.end
    if request.abort_kind is not None:
        return
    if _met_another(evidence, fault, request):
        findings.exempt()
        return
    findings.saw()
    if end is None or request.server_failed:
        reason = f" ({end.error_reason})" if end and end.error_reason else ""
        findings.fail(f"{request.outcome}{reason} by {fault.label}", rid=request.rid)


def _met_another(evidence: RunEvidence, fault: FaultWindow, request: Request) -> bool:
    """A longer fault before or after it explains more than this one does."""
    end_ns = request.end.end_ns if request.end else fault.end_ns
    after_s = evidence.plan.expect.recovery_first_success_s
    return any(
        other is not fault
        and other.overlaps(request.sent.sent_ns, end_ns, after_s)
        and not _is_short(evidence.plan, other)
        for other in evidence.faults
    )
