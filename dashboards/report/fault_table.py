"""Each fault: was it proven, whom did it meet, how was it healed, and whom did it hurt."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.report.faults import FaultView
from dashboards.report.html import Markup, el, join
from dashboards.report.parts import (
    DASH,
    chip,
    milliseconds,
    note,
    number,
    rid_link,
    row,
    seconds,
    section,
    table,
)
from dashboards.report.requests import Group, RequestView

BLAST_S = 5.0
"""How long after a heal a bad end is still counted beside that fault."""
MAX_HURT = 100
_HURT = (Group.SERVER, Group.FAILED)
_HEADS = (
    "fault",
    "what",
    "#from s",
    "#for s",
    "proven",
    "#exposed",
    "healed by",
    "#heal ms",
    "#first success ms",
    "#goodput after",
    "hurt",
)


def fault_table(faults: Sequence[FaultView], requests: Sequence[RequestView]) -> Markup:
    if not faults:
        return section("Faults", "faults", note("No fault was recorded in this run."))
    rows = (_row(fault, requests) for fault in faults)
    legend = (
        f"hurt: requests that the server aborted or that failed while the fault was on, or within"
        f" {BLAST_S:g} s after."
    )
    return section("Faults", "faults", table(_HEADS, rows), note(legend))


def _row(fault: FaultView, requests: Sequence[RequestView]) -> Markup:
    verdict = fault.verdict
    return row(
        el("td", el("b", fault.id), class_="name"),
        join(fault.label, el("div", fault.proof, class_="soft") if fault.proof else None),
        number(seconds(fault.start_s), fault.start_s),
        number(seconds(fault.length_s), fault.length_s),
        _proven(fault),
        number(DASH if verdict is None else f"{verdict.exposed:,}"),
        fault.rung
        or (DASH if fault.end_s is not None else chip(f"not healed: {fault.journal}", "bad")),
        number(milliseconds(fault.heal_ms), fault.heal_ms),
        number(milliseconds(verdict.first_success_ms if verdict else None)),
        number(
            DASH
            if verdict is None or verdict.goodput_share is None
            else f"{verdict.goodput_share:.0%}"
        ),
        _hurt(fault, requests),
    )


def _proven(fault: FaultView) -> Markup:
    if fault.verdict is None:
        return chip(fault.journal, "mute")
    return chip("proven", "good") if fault.verdict.proven else chip("not proven", "bad")


def _hurt(fault: FaultView, requests: Sequence[RequestView]) -> Markup | str:
    if fault.start_s is None:
        return DASH
    last = float("inf") if fault.end_s is None else fault.end_s + BLAST_S
    hurt = [
        one
        for one in requests
        if one.group in _HURT and one.at_s is not None and fault.start_s <= one.at_s <= last
    ]
    if not hurt:
        return "0"
    items = [
        el("li", rid_link(one.rid), f" {one.reason or one.outcome}") for one in hurt[:MAX_HURT]
    ]
    return el("details", el("summary", f"{len(hurt):,}"), el("ul", items, class_="evidence"))
