"""`judge_run`: from a run directory to `verdict.json` and `aborts.jsonl`. Judging never starts anything.

How checks become a status and an exit code: `chaos.oracle.conclusion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from chaos.codes import ExitCode
from chaos.oracle.abort_latency import check_abort_latency, check_min_aborts
from chaos.oracle.abort_rows import abort_rows
from chaos.oracle.abort_spans import check_abort_spans
from chaos.oracle.answers import check_adds_up, check_answers
from chaos.oracle.bystanders import check_bystanders, find_groups, measure
from chaos.oracle.capacity import check_capacity_probe
from chaos.oracle.conclusion import Ending, conclude
from chaos.oracle.control_tokens import check_tokens_equal_control
from chaos.oracle.drained import check_drained
from chaos.oracle.evidence import RunEvidence, Source, load_evidence
from chaos.oracle.exposure import exposed_rids
from chaos.oracle.fault_window import LINK, FaultWindow
from chaos.oracle.faults_proven import check_faults_proven, check_heal_time, unproven
from chaos.oracle.findings import Check
from chaos.oracle.harmless_cuts import check_harmless_cuts, is_short
from chaos.oracle.late import check_late
from chaos.oracle.ledger_baseline import check_ledger_baseline
from chaos.oracle.pairs_recover import check_pairs_recover
from chaos.oracle.pool_used import check_pool_used
from chaos.oracle.recovery import baseline_share, check_recovery, recovery_of
from chaos.oracle.report_only import reported
from chaos.oracle.router_time import router_time
from chaos.oracle.run_complete import check_run_complete
from chaos.oracle.server_errors import check_send_lag, check_server_errors
from chaos.oracle.spans_complete import check_spans_complete, check_trace_joined
from chaos.oracle.summary import count_requests, summarize_aborts, summarize_ledger
from chaos.oracle.tokens_after_abort import check_no_token_after_abort
from chaos.oracle.whole_answers import check_whole_answers
from chaos.verdict import (
    VERDICT_SCHEMA,
    AbortRow,
    CheckResult,
    CheckStatus,
    Coverage,
    FaultVerdict,
    LedgerSummary,
    RequestCounts,
    RunStatus,
    Verdict,
)

_ALWAYS: tuple[Check, ...] = (
    check_run_complete,
    check_answers,
    check_whole_answers,
    check_adds_up,
    check_late,
    check_server_errors,
    check_send_lag,
    check_no_token_after_abort,
    check_ledger_baseline,
    check_capacity_probe,
    check_abort_spans,
    check_spans_complete,
    check_trace_joined,
)


_WHERE_ASKED = (
    check_tokens_equal_control,
    check_faults_proven,
    check_recovery,
    check_pairs_recover,
    check_harmless_cuts,
    check_bystanders,
    check_heal_time,
    check_abort_latency,
    check_min_aborts,
    check_pool_used,
    check_drained,
)
ALL_CHECKS: tuple[Check, ...] = (*_ALWAYS, *_WHERE_ASKED)
"""Every check there is; `wanted_checks` says which of them a scenario asks for."""


def judge_run(run_dir: Path) -> Verdict:
    """Judge what is there and write the verdict. Raises OSError only if it cannot be written."""
    evidence = load_evidence(run_dir)
    try:
        rows = abort_rows(evidence)
        verdict = judge(evidence, rows)
    except Exception as error:
        rows, verdict = [], _broken(evidence, error)
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    _replace(run_dir / "aborts.jsonl", lines)
    text = msgspec.json.format(msgspec.json.encode(verdict), indent=2)
    _replace(run_dir / "verdict.json", text + b"\n")
    return verdict


def judge(evidence: RunEvidence, rows: Sequence[AbortRow]) -> Verdict:
    """The verdict, and nothing written."""
    checks = tuple(reported(evidence.plan, check(evidence)) for check in wanted_checks(evidence))
    conclusion = conclude(_ending(evidence), checks)
    info, plan = evidence.info, evidence.plan
    return Verdict(
        schema=VERDICT_SCHEMA,
        scenario=info.scenario if info else plan.name,
        status=conclusion.status,
        exit_code=conclusion.exit_code,
        seed=info.seed if info else plan.seed,
        checks=checks,
        faults=tuple(_fault(evidence, fault) for fault in evidence.faults),
        requests=count_requests(evidence),
        aborts=summarize_aborts(rows),
        ledger=summarize_ledger(evidence),
        residue=info.residue if info else (),
        duration_s=info.duration_s if info else 0.0,
        run_id=info.run_id if info else "",
        reason=conclusion.reason,
        bystanders=measure(find_groups(evidence)),
        router=router_time(evidence),
        coverage=_coverage(evidence, checks),
    )


def _broken(evidence: RunEvidence, error: Exception) -> Verdict:
    """The evidence broke the oracle itself: that proves nothing, least of all that the run passed."""
    info = evidence.info
    return Verdict(
        schema=VERDICT_SCHEMA,
        scenario=info.scenario if info else evidence.plan.name,
        status=RunStatus.INVALID,
        exit_code=ExitCode.INVALID,
        seed=info.seed if info else evidence.plan.seed,
        checks=(),
        faults=(),
        requests=RequestCounts(total=0, completed=0, aborted={}, aborted_server={}, failed={}),
        aborts=summarize_aborts([]),
        ledger=LedgerSummary(baseline={}, workers={}),
        residue=info.residue if info else (),
        duration_s=info.duration_s if info else 0.0,
        run_id=info.run_id if info else "",
        reason=f"the oracle broke on this run directory: {type(error).__name__}: {error}",
    )


def wanted_checks(evidence: RunEvidence) -> list[Check]:
    """Which checks apply is the scenario's say alone; an unreadable scenario asks for all of them."""
    plan, unread = evidence.plan, evidence.gap(Source.SCENARIO) is not None
    expect, kinds = plan.expect, {step.fault.kind for step in plan.method}
    wanted = list(_ALWAYS)
    if unread or expect.control_requests:
        wanted.append(check_tokens_equal_control)
    if unread or kinds or evidence.faults:
        wanted += [check_faults_proven, check_recovery, check_pairs_recover]
    if unread or any(is_short(plan, step.fault) for step in plan.method):
        wanted.append(check_harmless_cuts)
    if unread or expect.min_bystanders:
        wanted.append(check_bystanders)
    if not evidence.can_show(Source.LEDGER):
        wanted.append(check_drained)
    if unread or LINK in kinds:
        wanted.append(check_heal_time)
    if unread or plan.load.aborts.share:
        wanted.append(check_abort_latency)
    minima = (
        expect.min_aborts,
        expect.min_per_kind,
        expect.min_mid_chunk,
        expect.min_transfer_or_bootstrap,
        expect.min_decode,
    )
    if any(minima):
        wanted.append(check_min_aborts)
    if expect.min_pool_used:
        wanted.append(check_pool_used)
    return wanted


def _coverage(evidence: RunEvidence, checks: Sequence[CheckResult]) -> Coverage:
    blind = [check.id for check in checks if check.status is CheckStatus.UNOBSERVABLE]
    return Coverage(
        checks=len(checks),
        examined=sum(check.examined > 0 for check in checks),
        exempted=sum(check.exempted for check in checks),
        unobservable=tuple(blind),
        cannot_show=tuple(sorted(evidence.blind)),
    )


def _ending(evidence: RunEvidence) -> Ending:
    info = evidence.info
    if info is None:
        return Ending()
    return Ending(
        finished=info.finished,
        interrupted=info.interrupted,
        halted_by=info.halted_by,
        residue=info.residue,
    )


def _fault(evidence: RunEvidence, fault: FaultWindow) -> FaultVerdict:
    recovery, before = recovery_of(evidence, fault), baseline_share(evidence)
    return FaultVerdict(
        id=fault.id,
        kind=fault.kind,
        links=fault.links,
        mode=fault.mode,
        proven=not unproven(evidence, fault),
        exposed=len(exposed_rids(evidence, fault)),
        injected_at=fault.injected_ns,
        healed_at=fault.healed_ns,
        heal_rung=fault.rung,
        heal_ms=fault.heal_ms,
        workers=fault.workers,
        first_success_ms=recovery.first_success_ms if recovery else None,
        goodput_back_ms=recovery.goodput_back_ms if recovery else None,
        goodput_share=(recovery.share.value / before.value if recovery and before.value else None),
    )


def _replace(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)
