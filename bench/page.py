"""docs/performance.md: the prose is written by hand, what stands between the two markers by a run."""

from __future__ import annotations

from pathlib import Path

from bench.report import Report
from bench.table import render_markdown

BEGIN = "<!-- bench: begin (written by `make bench`) -->"
END = "<!-- bench: end -->"


def write_page(report: Report, path: Path) -> None:
    """Replace what is between the markers. Raises ValueError if it must not or cannot."""
    if report.quick:
        raise ValueError("a quick run has too few samples to be published: run without --quick")
    path.write_text(replace_table(path.read_text(), render_markdown(report)))


def replace_table(page: str, table: str) -> str:
    """Raises ValueError unless each marker stands there once, in order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page needs the line {BEGIN!r} and then the line {END!r}, once each")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
