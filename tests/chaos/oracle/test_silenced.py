"""A collector that was away excuses the spans of its time, counted, and no others."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from chaos.oracle.judge import judge_run
from chaos.verdict import CheckResult, CheckStatus, Verdict
from dashboards.spans import Span
from tests.chaos.oracle.builder import HealthyRun
from tests.chaos.oracle.spans_builder import wall

HEALTHY = HealthyRun()
BEGIN_S, END_S = 5.0, 8.0  # of f0, which becomes a fault of telemetry here


def without_collector(lost: tuple[float, float]) -> HealthyRun:
    """No span that ended in ``lost`` has arrived."""
    run = HEALTHY.copy()
    run.faults = [
        replace(one, kind="telemetry", mode="collector_down", links=(), silences=("spans",))
        if one.fault_id == "f0"
        else one
        for one in run.faults
    ]

    def is_lost(span: Span) -> bool:
        return wall(lost[0]) <= span.end_ns < wall(lost[1])

    run.spans = [span for span in run.spans if not is_lost(span)]
    return run


def check_of(verdict: Verdict, check_id: str) -> CheckResult:
    return next(one for one in verdict.checks if one.id == check_id)


def test_spans_of_that_time_are_exempted_and_counted(tmp_path: Path) -> None:
    verdict = judge_run(without_collector((BEGIN_S, END_S)).write(tmp_path))
    spans = check_of(verdict, "spans_complete")
    assert spans.status is CheckStatus.PASS, spans.observed
    assert spans.exempted > 20
    for check_id in ("trace_joined", "abort_spans"):
        check = check_of(verdict, check_id)
        assert all(
            "lost" not in one.value and "root span" not in one.value for one in check.evidence
        )


def test_everybody_is_exposed_to_it_and_recovery_can_be_judged(tmp_path: Path) -> None:
    verdict = judge_run(without_collector((BEGIN_S, END_S)).write(tmp_path))
    (fault,) = [one for one in verdict.faults if one.id == "f0"]
    assert fault.exposed >= 5
    assert fault.first_success_ms is not None
    assert check_of(verdict, "recovery").status is CheckStatus.PASS


def test_spans_of_another_time_are_not(tmp_path: Path) -> None:
    verdict = judge_run(without_collector((30.0, 32.0)).write(tmp_path))
    assert check_of(verdict, "spans_complete").status is CheckStatus.UNKNOWN
