"""The verdict as a whole: what passes, which exit code wins, and that broken evidence never passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from chaos.oracle.evidence import load_evidence
from chaos.oracle.findings import Findings, check
from chaos.oracle.judge import judge_run
from chaos.records import EventKind, FaultEvent
from chaos.verdict import AbortRow, CheckResult, CheckStatus, RunStatus, Verdict
from dashboards.spanstore.tally import Tally
from dashboards.spanstore.writer import SpanWriter
from loadtest.history import End, Outcome, Sent
from tests.chaos.oracle.builder import NUM_REQUESTS, HealthyRun, make_event
from tests.chaos.oracle.mutations import (
    change,
    change_end,
    change_ledger,
    drop,
    end_of,
    is_end,
    is_fault,
    is_final,
    rid_of,
)
from tests.chaos.oracle.spans_builder import mono

HEALTHY = HealthyRun()
FILES = (
    "run.json",
    "scenario.resolved.yaml",
    "history.jsonl",
    "control.jsonl",
    "faults.jsonl",
    "ledger.jsonl",
    "events.jsonl",
    "spans.sqlite",
)


def judged(run: HealthyRun, directory: Path) -> Verdict:
    return judge_run(run.write(directory))


def check_of(verdict: Verdict, check_id: str) -> CheckResult:
    return next(one for one in verdict.checks if one.id == check_id)


# ---- what passes ----------------------------------------------------------------------------------


def test_a_healthy_run_passes_every_check(tmp_path: Path) -> None:
    begun = time.perf_counter()
    verdict = judged(HEALTHY.copy(), tmp_path)
    assert time.perf_counter() - begun < 2.0
    assert [one for one in verdict.checks if one.status is not CheckStatus.PASS] == []
    assert (verdict.status, verdict.exit_code) == (RunStatus.PASSED, 0)
    assert all(one.examined > 0 and one.expected and one.observed for one in verdict.checks)
    assert len(verdict.checks) == 19
    assert all(one.kinds for one in verdict.checks if one.id in ("answers", "abort_spans"))


def test_a_run_without_faults_passes_and_asks_for_no_faults(tmp_path: Path) -> None:
    verdict = judged(HealthyRun(faults=False), tmp_path)
    assert verdict.status is RunStatus.PASSED, verdict.reason
    assert not {"faults_proven", "recovery", "pairs_recover", "heal_time"} & {
        one.id for one in verdict.checks
    }


def test_a_run_with_bystanders_and_a_short_cut_passes(tmp_path: Path) -> None:
    run = HealthyRun(short=True)
    run.expect["min_bystanders"] = 12
    verdict = judged(run, tmp_path)
    assert verdict.status is RunStatus.PASSED, verdict.reason
    assert check_of(verdict, "harmless_cuts").examined >= 3
    assert check_of(verdict, "bystanders").examined >= 12
    assert verdict.bystanders is not None
    assert verdict.bystanders.ttft_p95_ms.ratio == pytest.approx(1.0)


def test_a_pool_that_was_used_as_wanted_passes(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    run.expect["min_pool_used"] = 0.1
    check = check_of(judged(run, tmp_path), "pool_used")
    assert check.status is CheckStatus.PASS, check.observed
    assert "most held: p0" in check.observed


def test_the_router_time_is_what_no_worker_covers(tmp_path: Path) -> None:
    """A completed request is 2 ms old when sent, at the workers from 4 ms on, and ends 10 ms after them."""
    router = judged(HEALTHY.copy(), tmp_path).router
    assert router is not None
    assert router.retries == 0
    assert router.ms.p99 == pytest.approx(12.0)
    assert router.requests + router.unclear == NUM_REQUESTS
    assert router.unclear > 0, "spans died with d0"


def test_goodput_comes_back_after_each_heal(tmp_path: Path) -> None:
    faults = judged(HEALTHY.copy(), tmp_path).faults
    assert all(fault.goodput_back_ms is not None for fault in faults)
    assert all(0 <= (fault.goodput_back_ms or 0) < 1500 for fault in faults)


def test_spans_from_the_real_writer_are_read_the_same(tmp_path: Path) -> None:
    HEALTHY.copy().write(tmp_path)
    (tmp_path / "spans.sqlite").unlink()
    writer = SpanWriter(tmp_path / "spans.sqlite", Tally())
    assert writer.submit(HEALTHY.spans) is None
    assert writer.close() is None
    assert judge_run(tmp_path).status is RunStatus.PASSED


def test_counts_add_up_and_faults_and_aborts_are_told(tmp_path: Path) -> None:
    verdict = judged(HEALTHY.copy(), tmp_path)
    counts = verdict.requests
    parts = [*counts.aborted.values(), *counts.aborted_server.values(), *counts.failed.values()]
    assert counts.total == NUM_REQUESTS == counts.completed + sum(parts)
    assert set(counts.aborted) == {"disconnect", "rid", "deadline"}
    assert set(counts.aborted_server) == {"peer_dead"}
    assert [(f.proven, f.exposed >= 5, f.heal_ms) for f in verdict.faults] == [(True, True, 12)] * 3
    assert all(f.first_success_ms and f.goodput_share == 1.0 for f in verdict.faults)
    assert verdict.aborts.count == sum(counts.aborted.values())
    assert set(verdict.aborts.by_stage) == {"mid_chunk", "transfer", "running"}
    assert verdict.ledger.baseline == verdict.ledger.workers


def test_abort_rows_join_client_and_workers(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    verdict = judged(run, tmp_path)
    lines = (tmp_path / "aborts.jsonl").read_bytes().splitlines()
    rows = {row.rid: row for row in (msgspec.json.decode(line, type=AbortRow) for line in lines)}
    assert len(rows) == verdict.aborts.count
    row = rows[rid_of(run, Outcome.ABORTED_RID, 0)]
    sent = next(r for r in run.history if isinstance(r, Sent) and r.rid == row.rid)
    assert (row.kind, row.reason, row.stage_seen) == ("rid", "client_abort", "mid_chunk")
    assert row.trace_id == sent.trace_id
    assert row.act_to_seen_ms == pytest.approx(5.0)
    assert row.received_to_released_ms == pytest.approx({"prefill": 4.0, "decode": 4.0})
    assert (row.wasted_prefill_tokens, row.wasted_decode_tokens) == (256, 256)


def test_the_verdict_file_is_the_verdict(tmp_path: Path) -> None:
    verdict = judged(HEALTHY.copy(), tmp_path)
    text = (tmp_path / "verdict.json").read_bytes()
    assert msgspec.json.decode(text, type=Verdict) == verdict
    assert not list(tmp_path.glob("*.new"))
    assert judge_run(tmp_path) == verdict, "judging again must say the same"


def test_a_near_tie_is_taken_out_and_counted(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    rid = run.control[0].rid
    end = end_of(run, rid)
    ids = (*end.output_ids[:7], 255 - end.output_ids[7], *end.output_ids[8:])
    margins = (*end.margins[:7], 0.0004, *end.margins[8:])
    change_end(run, rid, output_ids=ids, margins=margins)
    change(run.control, is_end(rid), margins=margins)
    verdict = judged(run, tmp_path)
    tokens = check_of(verdict, "tokens_equal_control")
    assert verdict.status is RunStatus.PASSED
    assert (tokens.examined, tokens.exempted) == (13, 1)


def test_a_clear_margin_is_no_near_tie(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    rid = run.control[0].rid
    end = end_of(run, rid)
    ids = (*end.output_ids[:7], 255 - end.output_ids[7], *end.output_ids[8:])
    margins = (*end.margins[:7], 0.0011, *end.margins[8:])
    change_end(run, rid, output_ids=ids, margins=margins)
    change(run.control, is_end(rid), margins=margins)
    assert check_of(judged(run, tmp_path), "tokens_equal_control").status is CheckStatus.FAIL


# ---- which exit code wins ---------------------------------------------------------------------------


def fail_something(run: HealthyRun) -> None:
    change_ledger(run, is_final("d0"), rooms_open=1)


def leave_a_fault_unproven(run: HealthyRun) -> None:
    drop(run.faults, is_fault("f1", FaultEvent.VERIFIED))


def with_info(**fields: object) -> Callable[[HealthyRun], None]:
    def apply(run: HealthyRun) -> None:
        run.info = replace(run.info, **fields)

    return apply


residue = with_info(residue=("process d0 (pid 7)",))
halted = with_info(finished=False, halted_by="stuck_request: r0001 is open for 21 s")
interrupted = with_info(finished=False, interrupted=True)


@pytest.mark.parametrize(
    ("changes", "status", "exit_code"),
    [
        ((leave_a_fault_unproven,), RunStatus.INVALID, 4),
        ((fail_something, leave_a_fault_unproven), RunStatus.FAILED, 1),
        ((halted,), RunStatus.HALTED, 3),
        ((halted, leave_a_fault_unproven), RunStatus.HALTED, 3),
        ((halted, fail_something), RunStatus.FAILED, 1),
        ((interrupted,), RunStatus.INVALID, 130),
        ((residue,), RunStatus.RESIDUE, 5),
        ((residue, fail_something, halted), RunStatus.RESIDUE, 5),
        ((residue, interrupted), RunStatus.RESIDUE, 5),
    ],
    ids=lambda value: None,
)
def test_exit_codes_in_their_order(
    changes: tuple[Callable[[HealthyRun], None], ...],
    status: RunStatus,
    exit_code: int,
    tmp_path: Path,
) -> None:
    run = HEALTHY.copy()
    for apply in changes:
        apply(run)
    verdict = judged(run, tmp_path)
    assert (verdict.status, verdict.exit_code) == (status, exit_code)
    assert verdict.reason


# ---- a run that was cut short -----------------------------------------------------------------------


def cut(run: HealthyRun, at_s: float, rid: str) -> None:
    """A guard trips at ``at_s``; ``rid`` is the request that was open then."""
    halted(run)
    run.events = [event for event in run.events if event.at_ns < mono(at_s)]
    run.events.append(replace(make_event(EventKind.GUARD, "no_data", at_s), ok=False))
    run.samples = [sample for sample in run.samples if sample.at_ns < mono(at_s)]
    late = {r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(at_s)}
    late |= {r.rid for r in run.history if isinstance(r, End) and r.end_ns > mono(at_s)}
    run.history = [record for record in run.history if record.rid not in late - {rid}]
    run.spans = [span for span in run.spans if span.text("pd.rid") not in late]


def open_at(run: HealthyRun, at_s: float) -> str:
    return next(
        r.rid
        for r in run.history
        if isinstance(r, End)
        and r.outcome is Outcome.COMPLETED
        and mono(at_s) < r.end_ns < mono(at_s + 0.5)
    )


def test_a_request_that_the_halt_cut_off_is_no_failure(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    rid = open_at(run, 12.0)
    change_end(run, rid, outcome=Outcome.CONN_ERROR, status=None, end_ns=mono(12.3), num_answers=0)
    cut(run, 12.0, rid)
    verdict = judged(run, tmp_path)
    assert check_of(verdict, "server_errors").status is CheckStatus.UNKNOWN
    assert [one.id for one in verdict.checks if one.status is CheckStatus.FAIL] == []
    assert verdict.exit_code == 3


def test_a_young_open_request_of_a_cut_run_is_unknown_not_hung(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    rid = open_at(run, 12.0)
    drop(run.history, is_end(rid))
    cut(run, 12.0, rid)
    assert check_of(judged(run, tmp_path), "answers").status is CheckStatus.UNKNOWN


def test_an_old_open_request_of_a_cut_run_is_hung(tmp_path: Path) -> None:
    """What the stuck_request guard halts for is also a failed check: exit code 1, not 3."""
    run = HEALTHY.copy()
    rid = open_at(run, 2.0)
    drop(run.history, is_end(rid))
    cut(run, 21.0, rid)
    verdict = judged(run, tmp_path)
    assert check_of(verdict, "answers").status is CheckStatus.FAIL
    assert verdict.exit_code == 1


# ---- evidence that is missing or broken ---------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_and_never_passes(name: str, tmp_path: Path) -> None:
    HEALTHY.copy().write(tmp_path)
    (tmp_path / name).unlink()
    verdict = judge_run(tmp_path)
    assert (verdict.status, verdict.exit_code) == (RunStatus.INVALID, 4)
    assert any(name in one.observed for one in verdict.checks)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff garbage {{{\n", b'{"event": "sent"}\n[]\n', b"null\n"]
)
def test_a_malformed_file_is_invalid_and_no_exception(
    name: str, content: bytes, tmp_path: Path
) -> None:
    HEALTHY.copy().write(tmp_path)
    (tmp_path / name).write_bytes(content)
    verdict = judge_run(tmp_path)
    assert (verdict.status, verdict.exit_code) == (RunStatus.INVALID, 4)
    assert load_evidence(tmp_path).gaps


@pytest.mark.parametrize("name", FILES)
def test_a_directory_in_place_of_a_file(name: str, tmp_path: Path) -> None:
    HEALTHY.copy().write(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    assert judge_run(tmp_path).exit_code == 4


def test_an_empty_directory_is_invalid(tmp_path: Path) -> None:
    verdict = judge_run(tmp_path)
    assert (verdict.status, verdict.exit_code) == (RunStatus.INVALID, 4)
    assert all(one.status is CheckStatus.UNKNOWN for one in verdict.checks)


def test_a_torn_last_line_of_the_history_is_a_hung_request(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    completed = rid_of(run, Outcome.COMPLETED)
    run.history.sort(key=lambda record: record.rid == completed)
    run.write(tmp_path)
    path = tmp_path / "history.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    verdict = judge_run(tmp_path)
    assert check_of(verdict, "answers").status is CheckStatus.FAIL
    assert verdict.requests.failed["hung"] == 1


def test_evidence_that_breaks_arithmetic_breaks_no_judge(tmp_path: Path) -> None:
    run = HEALTHY.copy()
    change(run.faults, is_fault("f0", FaultEvent.HEALED), at_ns=10**400)
    verdict = judged(run, tmp_path)
    assert verdict.exit_code in (1, 4)
    assert verdict.status is not RunStatus.PASSED


# ---- the safety rules of @check -----------------------------------------------------------------------


def test_a_check_that_throws_is_unknown(tmp_path: Path) -> None:
    @check("boom", "never")
    def check_boom(evidence: object, findings: Findings) -> None:
        findings.saw(5)
        raise ZeroDivisionError("by design")

    result = check_boom(load_evidence(tmp_path))
    assert (result.status, result.examined) == (CheckStatus.UNKNOWN, 0)
    assert "ZeroDivisionError: by design" in result.observed


def test_a_check_that_looked_at_nothing_is_unknown(tmp_path: Path) -> None:
    @check("blind", "something")
    def check_blind(evidence: object, findings: Findings) -> None:
        findings.exempt(9)

    result = check_blind(load_evidence(tmp_path))
    assert (result.status, result.exempted) == (CheckStatus.UNKNOWN, 9)


def test_a_failure_outranks_a_doubt(tmp_path: Path) -> None:
    @check("both", "something")
    def check_both(evidence: object, findings: Findings) -> None:
        findings.saw()
        findings.doubt("unsure")
        findings.fail("wrong", rid="r1")

    result = check_both(load_evidence(tmp_path))
    assert result.status is CheckStatus.FAIL
    assert [one.value for one in result.evidence] == ["wrong", "unsure"]
