"""`severance compare`: what counts as a regression, and what is only shown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from chaos.codes import ExitCode
from chaos.compare import Change, Comparison, compare
from chaos.verdict import CheckResult, CheckStatus, Verdict
from severance import main
from tests.chaos.oracle.builder import HealthyRun
from tests.chaos.oracle.mutations import change_ledger, is_final


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return judged_run(HealthyRun(), tmp_path_factory.mktemp("healthy"))


def judged_run(run: HealthyRun, directory: Path) -> Path:
    from chaos.oracle.judge import judge_run

    judge_run(run.write(directory))
    return directory


def verdict_of(directory: Path) -> Verdict:
    return msgspec.json.decode((directory / "verdict.json").read_bytes(), type=Verdict)


def with_check(verdict: Verdict, name: str, **fields: object) -> Verdict:
    checks = tuple(replace(one, **fields) if one.id == name else one for one in verdict.checks)
    return replace(verdict, checks=checks)


def against(first: Verdict, second: Verdict, max_ratio: float | None = None) -> Comparison:
    return compare(first, second, "a", "b", max_ratio)


def test_a_run_is_no_worse_than_itself(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(healthy), str(healthy), "--max-ratio", "1"]) == ExitCode.PASSED
    text = capsys.readouterr().out
    assert "no check changed" in text
    assert "no regression" in text
    assert "f1: goodput back, ms" in text


def test_a_check_that_fails_now_is_a_regression(
    healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = HealthyRun()
    change_ledger(run, is_final("d0"), rooms_open=1)
    broken = judged_run(run, tmp_path / "broken")
    assert main(["compare", str(healthy), str(broken)]) == ExitCode.FAILED
    assert "ledger_baseline: pass -> fail" in capsys.readouterr().out
    assert main(["compare", str(broken), str(healthy)]) == ExitCode.PASSED


@pytest.mark.parametrize(
    ("status", "is_worse"),
    [
        (CheckStatus.UNKNOWN, True),
        (CheckStatus.UNOBSERVABLE, True),
        (CheckStatus.FAIL, True),
        (CheckStatus.PASS, False),
    ],
)
def test_whatever_is_not_a_pass_any_more(
    healthy: Path, status: CheckStatus, is_worse: bool
) -> None:
    first = verdict_of(healthy)
    assert bool(against(first, with_check(first, "late", status=status)).regressions) is is_worse


def test_a_check_that_is_gone_is_a_regression(healthy: Path) -> None:
    first = verdict_of(healthy)
    fewer = replace(first, checks=tuple(one for one in first.checks if one.id != "late"))
    comparison = against(first, fewer)
    assert comparison.regressions == ("late passed and is gone",)
    assert against(fewer, first).regressions == ()


def test_a_new_check_that_fails_is_a_regression(healthy: Path) -> None:
    first = verdict_of(healthy)
    new = CheckResult(
        id="new", status=CheckStatus.FAIL, examined=1, expected="fine", observed="not fine"
    )
    assert against(first, replace(first, checks=(*first.checks, new))).regressions


def test_a_check_that_looks_at_far_less_is_shown(healthy: Path) -> None:
    first = verdict_of(healthy)
    comparison = against(first, with_check(first, "answers", examined=3))
    assert [(one.id, one.change) for one in comparison.checks] == [("answers", Change.FEWER)]


def test_a_figure_is_judged_only_if_asked(healthy: Path) -> None:
    first = verdict_of(healthy)
    slow = replace(first.aborts.act_to_seen_ms, p99=50.0)
    second = replace(first, aborts=replace(first.aborts, act_to_seen_ms=slow))
    assert against(first, second).regressions == ()
    (text,) = against(first, second, max_ratio=2.0).regressions
    assert text.startswith("abort seen p99, ms grew")


def test_two_scenarios_cannot_be_compared(
    healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(verdict_of(healthy), scenario="other")
    (tmp_path / "verdict.json").write_bytes(msgspec.json.encode(other))
    assert main(["compare", str(healthy), str(tmp_path)]) == ExitCode.USAGE
    assert "only runs of one scenario" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"{}", b"not json"])
def test_without_a_verdict_it_says_what_to_do(
    healthy: Path, tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "verdict.json").write_bytes(content)
    assert main(["compare", str(healthy), str(tmp_path)]) == ExitCode.USAGE
    assert f"severance check {tmp_path}" in capsys.readouterr().err


def test_json(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(healthy), str(healthy), "--json"]) == ExitCode.PASSED
    comparison = msgspec.json.decode(capsys.readouterr().out, type=Comparison)
    assert (comparison.exit_codes, comparison.regressions) == ((0, 0), ())
