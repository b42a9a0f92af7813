"""What a target cannot show is listed under coverage and never passed; a missing file is no excuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from chaos.oracle.evidence import EvidenceKind
from chaos.oracle.judge import ALL_CHECKS, judge_run
from chaos.records import FaultEvent
from chaos.verdict import CheckResult, CheckStatus, RunStatus, Verdict
from loadtest.history import Outcome
from tests.chaos.oracle.builder import HealthyRun
from tests.chaos.oracle.mutations import change_end, drop, is_fault, rid_of

HEALTHY = HealthyRun()
FILE_OF = {
    EvidenceKind.SPANS: "spans.sqlite",
    EvidenceKind.LEDGER: "ledger.jsonl",
    EvidenceKind.CONTROL_RUN: "control.jsonl",
}


def blind_run(*kinds: EvidenceKind) -> HealthyRun:
    run = HEALTHY.copy()
    run.info = replace(run.info, cannot_show=tuple(map(str, kinds)))
    return run


def judged(run: HealthyRun, directory: Path, *without: EvidenceKind) -> Verdict:
    run.write(directory)
    for kind in without:
        (directory / FILE_OF[kind]).unlink()
    return judge_run(directory)


def ids(checks: tuple[CheckResult, ...], status: CheckStatus) -> set[str]:
    return {check.id for check in checks if check.status is status}


@pytest.mark.parametrize("kind", FILE_OF)
def test_checks_that_need_it_are_unobservable_and_the_rest_judge(
    kind: EvidenceKind, tmp_path: Path
) -> None:
    verdict = judged(blind_run(kind), tmp_path, kind)
    needed = {check.id for check in ALL_CHECKS if kind in check.kinds}
    asked = {check.id for check in verdict.checks}
    assert ids(verdict.checks, CheckStatus.UNOBSERVABLE) == needed & asked != set()
    assert ids(verdict.checks, CheckStatus.PASS) == asked - needed, verdict.reason
    assert (verdict.status, verdict.exit_code) == (RunStatus.PASSED, 0)
    assert verdict.coverage is not None
    assert set(verdict.coverage.unobservable) == needed & asked
    assert verdict.coverage.cannot_show == (str(kind),)
    assert all(name in verdict.reason for name in needed & asked)


@pytest.mark.parametrize("kind", FILE_OF)
def test_a_missing_file_is_unknown_if_the_target_can_show_it(
    kind: EvidenceKind, tmp_path: Path
) -> None:
    verdict = judged(HEALTHY.copy(), tmp_path, kind)
    assert ids(verdict.checks, CheckStatus.UNOBSERVABLE) == set()
    assert verdict.exit_code == 4


def test_a_blind_run_still_fails_by_what_can_be_seen(tmp_path: Path) -> None:
    run = blind_run(*FILE_OF)
    change_end(run, rid_of(run, Outcome.COMPLETED), num_answers=2)
    verdict = judged(run, tmp_path, *FILE_OF)
    assert "answers" in ids(verdict.checks, CheckStatus.FAIL)
    assert verdict.exit_code == 1


def test_a_blind_run_still_has_to_prove_its_faults(tmp_path: Path) -> None:
    run = blind_run(*FILE_OF)
    drop(run.faults, is_fault("f1", FaultEvent.VERIFIED))
    verdict = judged(run, tmp_path, *FILE_OF)
    assert "faults_proven" in ids(verdict.checks, CheckStatus.UNKNOWN)
    assert verdict.exit_code == 4


def test_a_target_that_shows_nothing_proves_nothing(tmp_path: Path) -> None:
    run = blind_run(*EvidenceKind)
    run.write(tmp_path)
    for name in (*FILE_OF.values(), "history.jsonl"):
        (tmp_path / name).unlink()
    verdict = judge_run(tmp_path)
    assert verdict.exit_code == 4
    assert "answers" in ids(verdict.checks, CheckStatus.UNKNOWN), "the history is our own client's"


def test_each_check_has_an_id_of_its_own_and_says_what_it_needs() -> None:
    names = [check.id for check in ALL_CHECKS]
    assert len(set(names)) == len(names)
    for check in ALL_CHECKS:
        assert check.expected, check.id
        assert check.needs, check.id
        assert not set(check.needs) & set(check.wants), check.id


def test_every_check_has_a_line_in_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verdict.md").read_text(encoding="utf-8")
    assert [check.id for check in ALL_CHECKS if f"`{check.id}`" not in page] == []
