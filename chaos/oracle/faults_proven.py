"""`faults_proven` and `heal_time`: every fault that was asked for was there, mattered, and is gone."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.exposure import exposed_rids
from chaos.oracle.fault_window import LINK, FaultWindow
from chaos.oracle.findings import Findings, check
from chaos.oracle.plan import FaultPlan

_LASTED = 0.8


@check(
    "faults_proven",
    "every fault was injected, verified, healed, and met enough requests",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    wants=(Source.LEDGER, Source.SPANS),
)
def check_faults_proven(evidence: RunEvidence, findings: Findings) -> None:
    """An unproven fault is unknown, not failed: the run says nothing about the deployment."""
    least = evidence.plan.expect.min_exposed
    findings.expected = (
        f"every fault injected, verified, healed, and {least} requests exposed to it"
    )
    findings.noun = "faults"
    planned, journal = evidence.plan.method, evidence.faults
    if len(planned) != len(journal):
        findings.doubt(f"the scenario asks for {len(planned)} faults, {len(journal)} are recorded")
    for step, fault in zip(planned, journal, strict=False):
        for gap in _not_as_planned(step.fault, fault):
            findings.doubt(f"{fault.label}: {gap}")
    exposures = []
    for fault in evidence.faults:
        findings.saw()
        exposed = len(exposed_rids(evidence, fault))
        exposures.append(f"{fault.id} {exposed}")
        for gap in unproven(evidence, fault):
            findings.doubt(f"{fault.label}: {gap}")
        if exposed < least:
            findings.doubt(f"{fault.label}: {exposed} requests exposed, {least} wanted")
    findings.note = f"exposed: {', '.join(exposures) or 'none'}"


def _not_as_planned(plan: FaultPlan, fault: FaultWindow) -> Iterator[str]:
    if (plan.kind, plan.mode) != (fault.kind, fault.mode):
        yield f"the scenario asks for {plan.kind} {plan.mode}"
    for pattern in plan.links:
        if not any(fnmatchcase(link, pattern) for link in fault.links):
            yield f"it hit no link {pattern}"
    if plan.worker is not None and plan.worker not in fault.workers:
        yield f"it did not hit {plan.worker}"
    if fault.injected_ns is not None and plan.for_s:
        lasted_s = (fault.end_ns - fault.injected_ns) / 1e9
        if lasted_s < _LASTED * plan.for_s:
            yield f"it was on for {lasted_s:.2f} s of {plan.for_s:g} s"


def unproven(evidence: RunEvidence, fault: FaultWindow) -> list[str]:
    """Why the fault is not proven; empty if it is."""
    gaps = list(fault.gaps)
    if fault.injected_ns is not None and not _in_load(evidence, fault.injected_ns):
        gaps.append("it was injected outside of the load")
    shown = evidence.can_show(Source.LEDGER)
    if fault.ends_process and fault.healed_ns is not None and shown:
        gaps += [gap for worker in fault.workers if (gap := _survived(evidence, fault, worker))]
    return gaps


def _in_load(evidence: RunEvidence, at_ns: int) -> bool:
    return evidence.load_begin_ns <= at_ns <= max(evidence.load_end_ns, evidence.last_end_ns)


def _survived(evidence: RunEvidence, fault: FaultWindow, worker: str) -> str | None:
    """A killed worker comes back as another process; the one killed was there before."""
    before = fault.incarnations.get(worker)
    known = {
        sample.ledger.incarnation
        for sample in evidence.samples
        if sample.worker == worker
        and sample.ledger
        and fault.begin_ns
        and sample.at_ns <= fault.begin_ns
    }
    if before not in known:
        return f"{worker} was process {before} by the journal, which no ledger before it shows"
    healed_ns = fault.healed_ns
    after = {
        sample.ledger.incarnation
        for sample in evidence.samples
        if sample.worker == worker and sample.ledger and healed_ns and sample.at_ns >= healed_ns
    }
    if before is None or not after:
        return f"nothing shows that {worker} is another process now"
    return f"{worker} is still the same process" if before in after else None


@check("heal_time", "cut links are healed in time", Source.SCENARIO, Source.FAULTS)
def check_heal_time(evidence: RunEvidence, findings: Findings) -> None:
    """Time of the heal ladder; the restart of a worker is judged by `recovery`."""
    limit_ms = evidence.plan.expect.heal_ms
    findings.expected = f"each cut link is healed within {limit_ms:g} ms"
    findings.noun = "heals"
    for fault in evidence.faults:
        if fault.kind != LINK:
            continue
        if fault.heal_ms is None:
            findings.doubt(f"{fault.label}: no heal is recorded")
            continue
        findings.saw()
        if fault.heal_ms > limit_ms:
            findings.fail(f"{fault.label}: healed in {fault.heal_ms:.0f} ms by {fault.rung}")
