from __future__ import annotations

from pathlib import Path

import pytest

from chaos.verdict import CheckStatus, RunStatus
from dashboards.errors import OutputUnwritable
from dashboards.github_summary import VARIABLE, render, write_summary


@pytest.fixture(autouse=True)
def not_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_what_is_wrong_comes_first_with_its_evidence(builder) -> None:
    text = render(builder.verdict())
    assert text.startswith("## :x: pd-partition: failed (exit code 1)")
    assert text.index("`counts_at_baseline`") < text.index("`tokens_equal_control`")
    assert text.index("`tokens_equal_control`") < text.index("`metrics_agree`")
    assert text.index("`metrics_agree`") < text.index("2 of 6 checks pass")
    assert "load-7-0008" in text


def test_a_passed_run(builder) -> None:
    passed = tuple(one for one in builder.checks() if one.status is CheckStatus.PASS)
    text = render(builder.verdict(status=RunStatus.PASSED, exit_code=0, checks=passed))
    assert text.startswith("## :white_check_mark: pd-partition: passed (exit code 0)")
    assert "| check |" not in text


def test_residue_is_said(builder) -> None:
    text = render(builder.verdict(status=RunStatus.RESIDUE, residue=("process d0 (pid 7)",)))
    assert "LEFT BEHIND: process d0 (pid 7)" in text


def test_hostile_text_stays_in_its_cell(builder) -> None:
    builder.hostile = "a | b\n<script>alert(1)</script> `x` [link](u) **bold**"
    text = render(builder.verdict())
    assert "<script>" not in text
    assert "[link]" not in text
    for line in text.splitlines():
        if line.startswith("| `"):
            assert line.count("|") == 5, line


def test_appended_where_ci_wants_it(
    builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = tmp_path / "step.md"
    step.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(step))
    path = write_summary(builder.path, builder.verdict())
    assert path.name == "summary.md"
    assert step.read_text(encoding="utf-8") == f"before\n{path.read_text(encoding='utf-8')}\n"


def test_a_file_that_cannot_be_written_is_named(
    builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(OutputUnwritable, match=str(tmp_path)):
        write_summary(builder.path, builder.verdict())
