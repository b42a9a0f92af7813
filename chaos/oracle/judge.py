"""`judge_run`: from a run directory to `verdict.json` and `aborts.jsonl`. Judging never starts anything.

==============  =========  ==================================================================
exit code       status     when (the first that holds)
==============  =========  ==================================================================
5               residue    something was left behind
130             invalid    the user interrupted the run
1               failed     a check failed; so also with an unproven fault or a tripped guard
3               halted     a guard stopped the run
4               invalid    a check is unknown, or the run did not finish
0               passed     every check passed
==============  =========  ==================================================================
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
from chaos.oracle.capacity import check_capacity_probe
from chaos.oracle.control_tokens import check_tokens_equal_control
from chaos.oracle.evidence import RunEvidence, Source, load_evidence
from chaos.oracle.exposure import exposed_rids
from chaos.oracle.fault_window import LINK, FaultWindow
from chaos.oracle.faults_proven import check_faults_proven, check_heal_time, unproven
from chaos.oracle.findings import CheckFunction
from chaos.oracle.late import check_late
from chaos.oracle.ledger_baseline import check_ledger_baseline
from chaos.oracle.recovery import baseline_share, check_recovery, recovery_of
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
    FaultVerdict,
    LedgerSummary,
    RequestCounts,
    RunStatus,
    Verdict,
)

_ALWAYS: tuple[CheckFunction, ...] = (
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
    checks = tuple(check(evidence) for check in wanted_checks(evidence))
    status, exit_code, reason = conclude(evidence, checks)
    info, plan = evidence.info, evidence.plan
    return Verdict(
        schema=VERDICT_SCHEMA,
        scenario=info.scenario if info else plan.name,
        status=status,
        exit_code=exit_code,
        seed=info.seed if info else plan.seed,
        checks=checks,
        faults=tuple(_fault(evidence, fault) for fault in evidence.faults),
        requests=count_requests(evidence),
        aborts=summarize_aborts(rows),
        ledger=summarize_ledger(evidence),
        residue=info.residue if info else (),
        duration_s=info.duration_s if info else 0.0,
        run_id=info.run_id if info else "",
        reason=reason,
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


def wanted_checks(evidence: RunEvidence) -> list[CheckFunction]:
    """Which checks apply is the scenario's say alone; an unreadable scenario asks for all of them."""
    plan, unread = evidence.plan, evidence.gap(Source.SCENARIO) is not None
    expect, kinds = plan.expect, {step.fault.kind for step in plan.method}
    wanted = list(_ALWAYS)
    if unread or expect.control_requests:
        wanted.append(check_tokens_equal_control)
    if unread or kinds or evidence.faults:
        wanted += [check_faults_proven, check_recovery]
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
    return wanted


def conclude(evidence: RunEvidence, checks: Sequence[CheckResult]) -> tuple[RunStatus, int, str]:
    """Status, exit code and why, in a line."""
    info = evidence.info
    failed = _named(checks, CheckStatus.FAIL)
    unknown = _named(checks, CheckStatus.UNKNOWN)
    if info is not None and info.residue:
        return RunStatus.RESIDUE, ExitCode.RESIDUE, f"left behind: {info.residue[0]}"
    if info is not None and info.interrupted:
        also = f"; failed until then: {failed}" if failed else ""
        return RunStatus.INVALID, ExitCode.INTERRUPTED, f"the run was interrupted{also}"
    if failed:
        return RunStatus.FAILED, ExitCode.FAILED, f"failed: {failed}"
    if info is not None and info.halted_by:
        return RunStatus.HALTED, ExitCode.HALTED, f"halted by guard {info.halted_by}"
    if not evidence.finished or unknown:
        return RunStatus.INVALID, ExitCode.INVALID, f"cannot be judged: {unknown}"
    return RunStatus.PASSED, ExitCode.PASSED, "every check passed"


def _named(checks: Sequence[CheckResult], status: CheckStatus) -> str:
    return ", ".join(check.id for check in checks if check.status is status)


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
        goodput_share=(recovery.share.value / before.value if recovery and before.value else None),
    )


def _replace(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(content)
    fresh.replace(path)
