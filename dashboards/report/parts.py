"""Small things that every section is made of."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from dashboards.report.html import Child, Markup, el

DASH = "–"
NUMERIC = "#"
"""Begins the head of a column of numbers."""


def section(title: str, anchor: str, *children: Child | Iterable[Child]) -> Markup:
    return el("section", el("h2", title), *children, id=anchor)


def note(*children: Child) -> Markup:
    """What a section says instead of showing nothing."""
    return el("p", *children, class_="note")


def chip(text: str, tone: str) -> Markup:
    """``tone``: good | bad | warn | mute, or a request group."""
    return el("span", text, class_=f"chip {tone}")


def table(heads: Iterable[str], rows: Iterable[Markup], **attributes: str) -> Markup:
    head = el("thead", el("tr", map(_head, heads)))
    return el("div", el("table", head, el("tbody", rows), **attributes), class_="scroll")


def row(*cells: Child, **attributes: str) -> Markup:
    """A table row; a cell that is not a `td` yet is wrapped."""
    return el("tr", (_cell(cell) for cell in cells), **attributes)


def number(text: str, sort: float | None = None) -> Markup:
    """A right-aligned cell; ``sort`` is what sorting compares."""
    return el("td", text, class_="num", data_sort=sort)


def anchor(rid: str) -> str:
    """Id of a request's waterfall."""
    return f"w-{quote(rid, safe='')}"


def rid_link(rid: str, *children: Child) -> Markup:
    """A link that opens the request's waterfall; shows the rid unless there are children."""
    return el("a", *(children or (rid,)), href=f"#{anchor(rid)}", data_rid=rid)


def milliseconds(value: float | None) -> str:
    """At most three significant places: 0.42, 8.1, 123, 4,567."""
    if value is None:
        return DASH
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def seconds(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f}"


def _head(text: str) -> Markup:
    return el("th", text.removeprefix(NUMERIC), class_="num" if text.startswith(NUMERIC) else None)


def _cell(cell: Child) -> Child:
    return cell if isinstance(cell, Markup) and cell.startswith("<td") else el("td", cell)
