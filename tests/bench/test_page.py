"""The table on the page is what was measured, and only a whole, full run gets there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.__main__ import EXIT_USAGE, main
from bench.machine import Machine, describe_machine
from bench.page import BEGIN, END, replace_table, write_page
from bench.report import SCHEMA, BenchResult, Report, load, merge, save
from bench.row import BenchRow, at_least, at_most, make_row, not_measured
from bench.run import ROOT
from bench.table import reached, render_markdown, render_text

MACHINE = Machine(
    cpu="cpu", cores=2, memory_gib=8, system="Linux", versions={"python": "3"}, foreign_cores=0.0
)
HIT = make_row("hit", 4.0, "ms", at_most(5), "how it was", samples=9, p50=3.0)
MISS = make_row("miss", 0.6, "of it", at_least(0.8), "how", samples=9, why_missed="slow disk")
NOTHING = not_measured("nothing", "<= 5", "ms", "it crashed")


def make_report(*rows: BenchRow, quick: bool = False, name: str = "b") -> Report:
    result = BenchResult(name=name, seconds=1.0, rows=rows)
    return Report(schema=SCHEMA, date="2026-01-02", quick=quick, machine=MACHINE, results=(result,))


def test_the_table_tells_hits_misses_and_gaps() -> None:
    text = render_markdown(make_report(HIT, MISS, NOTHING))
    assert "| hit | <= 5 | 4 ms, p50 3 | yes |" in text
    assert "| miss | >= 0.8 | 0.6 of it | no, by 25%: slow disk |" in text
    assert "| nothing | <= 5 | not measured | no |" in text
    assert "- `nothing`: it crashed" in text
    assert reached(make_row("r", 1.0, "", None, "how", samples=1)) == ""
    assert len(render_text([HIT, MISS]).splitlines()) == 3


def test_a_busy_machine_is_named() -> None:
    report = msgspec.structs.replace(
        make_report(HIT), machine=msgspec.structs.replace(MACHINE, foreign_cores=1.5)
    )
    assert "Others used 1.5 cores" in render_markdown(report)
    assert "Nothing else ran" in render_markdown(make_report(HIT))


def test_only_what_is_between_the_markers_changes() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replace_table(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replace_table(replace_table(page, "x"), "new") == replace_table(page, "new")


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_its_markers_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        replace_table(page, "new")


def test_our_page_has_its_markers() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert "new table" in replace_table(page, "new table")


def test_a_quick_run_is_not_published(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\nold\n{END}\n")
    with pytest.raises(ValueError, match="quick"):
        write_page(make_report(HIT, quick=True), page)
    assert "old" in page.read_text()
    write_page(make_report(HIT), page)
    assert "| hit |" in page.read_text()


def test_merge_replaces_by_benchmark(tmp_path: Path) -> None:
    old = make_report(HIT, name="a")
    save(old, tmp_path / "deep" / "old.json")
    assert load(tmp_path / "deep" / "old.json") == old
    both = merge(old, make_report(MISS, name="b"))
    assert [row.name for row in both.rows] == ["hit", "miss"]
    again = merge(both, make_report(NOTHING, name="a"))
    assert [row.name for row in again.rows] == ["nothing", "miss"]


def test_merge_keeps_apart_what_does_not_belong_together() -> None:
    other = msgspec.structs.replace(
        make_report(HIT), machine=msgspec.structs.replace(MACHINE, cores=64)
    )
    with pytest.raises(ValueError, match="another machine"):
        merge(make_report(HIT), other)
    with pytest.raises(ValueError, match="quick"):
        merge(make_report(HIT), make_report(MISS, quick=True))


@pytest.mark.parametrize(
    "argv",
    [
        ["--page", "x.md", "--quick"],
        ["--page", "x.md", "--only", "tracing"],
        ["--merge", "no/such/file.json"],
    ],
)
def test_wrong_usage_measures_nothing(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == EXIT_USAGE
    assert "bench: " in capsys.readouterr().err


def test_the_machine_is_named_without_its_name() -> None:
    machine = describe_machine()
    assert machine.cores >= 1
    assert machine.memory_gib >= 1
    assert "family" in machine.cpu
    assert machine.is_same(msgspec.structs.replace(machine, foreign_cores=9.0))
