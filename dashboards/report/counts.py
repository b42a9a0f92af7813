"""How many requests ended how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chaos.verdict import RequestCounts
from dashboards.report.html import Markup, el
from dashboards.report.parts import note, section
from dashboards.report.requests import CLIENT_GROUPS, HUNG, LABELS, Group, RequestView


def counts(requests: Sequence[RequestView], judged: RequestCounts | None) -> Markup:
    """From the verdict where there is one; a disagreement with the history is said aloud."""
    total = judged.total if judged else len(requests)
    if not total and not requests:
        return section("Requests", "requests", note("No request was recorded."))
    shown = judged or _count(requests)
    tiles = [
        _tile("completed", shown.completed, total, "completed"),
        _tile("aborted by the client", sum(shown.aborted.values()), total, "rid", shown.aborted),
        _tile(
            "aborted by the server",
            sum(shown.aborted_server.values()),
            total,
            "server",
            shown.aborted_server,
        ),
        _tile("failed", sum(shown.failed.values()), total, "failed", shown.failed),
    ]
    return section(
        "Requests",
        "requests",
        el("p", el("b", f"{total:,}"), " requests", class_="lead"),
        _bar(requests),
        el("div", *tiles, class_="tiles"),
        _disagreement(requests, judged),
    )


def _count(requests: Sequence[RequestView]) -> RequestCounts:
    groups = Counter(one.group for one in requests)
    server = (one.reason or "reason unknown" for one in requests if one.group is Group.SERVER)
    return RequestCounts(
        total=len(requests),
        completed=groups[Group.COMPLETED],
        aborted={group.value: groups[group] for group in CLIENT_GROUPS if groups[group]},
        aborted_server=dict(Counter(server)),
        failed=dict(Counter(one.outcome for one in requests if one.group is Group.FAILED)),
    )


def _bar(requests: Sequence[RequestView]) -> Markup | None:
    groups = Counter(one.group for one in requests)
    if not groups:
        return None
    pieces = (
        el(
            "i",
            class_=group,
            style=f"flex-grow:{groups[group]}",
            title=f"{LABELS[group]}: {groups[group]}",
        )
        for group in Group
        if groups[group]
    )
    return el("div", pieces, class_="share")


def _tile(
    label: str, count: int, total: int, group: str, parts: dict[str, int] | None = None
) -> Markup:
    share = f"{count / total:.0%}" if total else ""
    ranked = sorted((parts or {}).items(), key=lambda part: -part[1])
    lines = [el("li", el("b", f"{number:,}"), f" {name}") for name, number in ranked if number]
    return el(
        "div",
        el("p", el("i", class_=f"swatch {group}"), label, class_="label"),
        el("p", f"{count:,}", el("small", share), class_="big"),
        el("ul", lines) if lines else None,
        class_="tile",
    )


def _disagreement(requests: Sequence[RequestView], judged: RequestCounts | None) -> Markup | None:
    hung = sum(one.outcome == HUNG for one in requests)
    if judged and requests and judged.total != len(requests):
        return note(
            f"The verdict counts {judged.total:,} requests, the history holds {len(requests):,}."
        )
    return note(f"Hung, sent and never ended: {hung:,}.") if hung else None
