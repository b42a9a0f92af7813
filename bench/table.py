"""Rows as a table: for the terminal and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable

from bench.report import Report
from bench.row import BenchRow

HEAD = ("what", "target", "measured", "reached")


def render_text(rows: Iterable[BenchRow]) -> str:
    """Columns padded with spaces."""
    table = [HEAD, *((row.name, row.target, measured(row), reached(row)) for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in table
    )


def render_markdown(report: Report) -> str:
    """Machine, table, and below it how each row was measured."""
    lines = [_about(report), ""]
    lines += ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += [_markdown_row(row) for row in report.rows]
    lines += ["", "How each was measured:"]
    lines += [f"- `{row.name}`: {row.how}" for row in report.rows]
    return "\n".join(lines)


def measured(row: BenchRow) -> str:
    """The value with its unit, and the percentiles where it has them."""
    if row.value is None:
        return "not measured"
    parts = [f"{number(row.value)} {row.unit}".rstrip()]
    if row.p50 is not None:
        parts.append(f"p50 {number(row.p50)}")
    if row.p99 is not None:
        parts.append(f"p99 {number(row.p99)}")
    return ", ".join(parts)


def reached(row: BenchRow) -> str:
    """yes, no with the distance and the reason, or nothing where there is no target."""
    if row.passed is None:
        return ""
    if row.passed:
        return "yes"
    text = "no" if row.missed_by is None else f"no, by {row.missed_by:.0%}"
    return f"{text}: {row.why_missed}" if row.why_missed else text


def number(value: float) -> str:
    """Three digits that matter; whole from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _markdown_row(row: BenchRow) -> str:
    cells = (row.name, row.target, measured(row), reached(row))
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _about(report: Report) -> str:
    machine = report.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    busy = (
        "Nothing else ran."
        if machine.is_quiet
        else f"**Others used {machine.foreign_cores:g} cores meanwhile: take no figure of time from here.**"
    )
    return (
        f"Measured on {report.date}: {machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, "
        f"{machine.system}; {versions}. {busy}"
    )
