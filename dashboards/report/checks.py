"""Check results, the broken ones first, and what could not be observed at all."""

from __future__ import annotations

from chaos.verdict import CheckResult, CheckStatus, Evidence, Verdict
from dashboards.report.html import Markup, el, join
from dashboards.report.parts import chip, note, number, rid_link, row, section, table

MAX_EVIDENCE = 200
SHOWN_EVIDENCE = 3
_ORDER = {
    CheckStatus.FAIL: "bad",
    CheckStatus.UNKNOWN: "warn",
    CheckStatus.REPORTED: "mute",
    CheckStatus.UNOBSERVABLE: "mute",
    CheckStatus.PASS: "good",
}
_HEADS = ("check", "status", "#examined", "#exempted", "expected", "observed", "evidence")


def checks(verdict: Verdict | None) -> Markup:
    if verdict is None:
        return section("Checks", "checks", note("Not judged yet, so there are no checks."))
    if not verdict.checks:
        return section("Checks", "checks", note("The verdict holds no checks."))
    order = list(_ORDER)
    ranked = sorted(verdict.checks, key=lambda check: order.index(check.status))
    return section("Checks", "checks", table(_HEADS, map(_row, ranked)), _coverage(verdict))


def _row(check: CheckResult) -> Markup:
    return row(
        el("td", el("b", check.id), class_="name"),
        chip(check.status, _ORDER[check.status]),
        number(f"{check.examined:,}", check.examined),
        number(f"{check.exempted:,}", check.exempted),
        check.expected,
        check.observed,
        _evidence(check.evidence),
        class_=f"check {check.status}",
    )


def _evidence(items: tuple[Evidence, ...]) -> Markup | None:
    if not items:
        return None
    lines = [el("li", _item(item)) for item in items[:MAX_EVIDENCE]]
    shown = el("ul", lines[:SHOWN_EVIDENCE], class_="evidence")
    if len(items) <= SHOWN_EVIDENCE:
        return shown
    left = len(items) - MAX_EVIDENCE
    if left > 0:
        lines.append(el("li", f"and {left:,} more in verdict.json"))
    rest = el("ul", lines[SHOWN_EVIDENCE:], class_="evidence")
    return join(shown, el("details", el("summary", f"{len(items):,} in all"), rest))


def _item(item: Evidence) -> Markup:
    rid = rid_link(item.rid) if item.rid else None
    span = el("code", item.span_id) if item.span_id else None
    parts = [part for part in (rid, span, item.value or None) if part is not None]
    return join(
        *(part for index, one in enumerate(parts) for part in ((" ", one) if index else (one,)))
    )


def _coverage(verdict: Verdict) -> Markup:
    blind = [check.id for check in verdict.checks if check.status is CheckStatus.UNOBSERVABLE]
    seen = sum(check.examined > 0 for check in verdict.checks)
    exempted = sum(check.exempted for check in verdict.checks)
    text = f"Coverage: {seen} of {len(verdict.checks)} checks had something to examine; "
    text += f"{exempted:,} cases were explained by a fault and exempted."
    if blind:
        text += f" Not observable on this target: {', '.join(blind)}."
    return note(text)
