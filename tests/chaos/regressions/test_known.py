"""The table of known bugs is whole, and each of them really changes the engine."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from chaos.oracle.evidence import RunEvidence, load_evidence
from chaos.oracle.judge import ALL_CHECKS, judge_run, wanted_checks
from chaos.oracle.plan import read_plan
from chaos.regressions import KNOWN, NAMES, Known, find, load
from chaos.regressions.matrix import SCENARIOS, Result, table, to_row
from chaos.scenario import dump_scenario, load_scenario
from chaos.verdict import CheckResult, CheckStatus, RunStatus, Verdict
from tests.chaos.oracle.builder import HealthyRun

HOME = Path(__file__).parents[3]
CHECKS = {check.id for check in ALL_CHECKS}


def test_at_least_fifteen_each_with_an_incident_and_a_name_of_its_own() -> None:
    assert len(KNOWN) >= 15
    assert len(set(NAMES)) == len(NAMES)
    assert all("#" in known.incident and known.what for known in KNOWN)


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(ValueError, match="peer_death_unnoticed"):
        load("no_such_bug")


def test_every_module_is_in_the_table_and_the_reverse() -> None:
    folder = HOME / "chaos" / "regressions"
    helpers = {"__init__", "__main__", "known", "matrix"}
    assert {path.stem for path in folder.glob("*.py")} - helpers == set(NAMES)


@pytest.mark.parametrize("known", KNOWN, ids=NAMES)
def test_its_scenario_asks_for_the_check_that_must_catch_it(known: Known, tmp_path: Path) -> None:
    assert set(known.caught_by) <= CHECKS
    scenario = load_scenario(SCENARIOS / f"{known.scenario}.yaml")
    dump_scenario(scenario, tmp_path / "scenario.resolved.yaml")
    plan = read_plan(tmp_path / "scenario.resolved.yaml")
    evidence = replace(some_evidence(bool(scenario.method)), plan=plan)
    asked = {check.id for check in wanted_checks(evidence)}
    assert set(known.caught_by) & asked, f"{known.scenario} asks for none of {known.caught_by}"


def test_each_of_them_replaces_something_of_the_engine() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.regressions.changes"],
        cwd=HOME,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    changes: dict[str, list[str]] = dict(map(json.loads, done.stdout.splitlines()))
    assert set(changes) == set(NAMES)
    assert [name for name, changed in changes.items() if not changed] == []


# ---- what the matrix makes of a verdict -----------------------------------------------------------------


@functools.cache
def some_evidence(faults: bool) -> RunEvidence:
    with tempfile.TemporaryDirectory() as directory:
        return load_evidence(HealthyRun(faults=faults).write(Path(directory)))


@functools.cache
def some_verdict() -> Verdict:
    with tempfile.TemporaryDirectory() as directory:
        return judge_run(HealthyRun().write(Path(directory)))


def result_of(known: Known | None, code: int, **statuses: CheckStatus) -> Result:
    checks = tuple(
        CheckResult(id=name, status=status, examined=1, expected="", observed="")
        for name, status in statuses.items()
    )
    verdict = replace(some_verdict(), checks=checks, exit_code=code, status=RunStatus.FAILED)
    return to_row("aborts", known, verdict).result


def test_a_bug_is_caught_only_by_a_check_that_should() -> None:
    known = find("two_final_answers")
    fail, passed, unknown = CheckStatus.FAIL, CheckStatus.PASS, CheckStatus.UNKNOWN
    assert result_of(known, 1, answers=fail) is Result.CAUGHT
    assert result_of(known, 1, late=fail, answers=passed) is Result.WRONG_CHECK
    assert result_of(known, 0, answers=passed) is Result.MISSED
    assert result_of(known, 4, answers=unknown) is Result.NOT_JUDGED
    assert result_of(None, 0, answers=passed) is Result.GREEN
    assert result_of(None, 1, answers=fail) is Result.RED
    assert to_row("aborts", known, None).result is Result.NOT_JUDGED


def test_the_table_has_a_line_for_each_and_counts() -> None:
    rows = [to_row("aborts", None, None), to_row("aborts", find("foreign_page"), None)]
    text = table(rows)
    assert text.count("not judged") == 2
    assert text.endswith("0 of 1 bugs caught by a check that should.")
