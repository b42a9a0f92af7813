"""Every abort and every failure: who asked, where it was caught, how fast it was let go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chaos.verdict import AbortSummary, Quantiles
from dashboards.report.html import Markup, el
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

_HEADS = (
    "#at s",
    "rid",
    "kind",
    "reason",
    "origin",
    "stage by role",
    "#act→seen ms",
    "#received→released ms",
    "#wasted tokens",
    "trace",
)


def abort_table(requests: Sequence[RequestView], judged: AbortSummary | None) -> Markup:
    hurt = [one for one in requests if one.group is not Group.COMPLETED]
    if not hurt:
        return section("Aborts and failures", "aborts", note("Every recorded request completed."))
    ranked = sorted(hurt, key=lambda one: one.at_s if one.at_s is not None else float("inf"))
    return section(
        "Aborts and failures",
        "aborts",
        _summary(judged) if judged else None,
        el(
            "input",
            type="search",
            placeholder="filter: rid, kind, reason, stage, trace id",
            data_filter="abort-rows",
        ),
        table(_HEADS, map(_row, ranked), id="abort-rows", class_="sortable"),
    )


def _row(one: RequestView) -> Markup:
    act_to_seen = one.row.act_to_seen_ms if one.row else None
    return row(
        number(seconds(one.at_s), one.at_s),
        el("td", rid_link(one.rid), class_="name"),
        chip(_kind(one), one.group),
        one.reason or DASH,
        one.origin or DASH,
        _stages(one),
        number(milliseconds(act_to_seen), act_to_seen),
        _released(one),
        _wasted(one),
        el("td", el("code", one.trace_id[:16] or DASH, title=one.trace_id)),
        class_="abort",
    )


def _kind(one: RequestView) -> str:
    return one.outcome if one.group in (Group.SERVER, Group.FAILED) else one.group.value


def _stages(one: RequestView) -> Markup | str:
    pairs = [f"{half.role} {half.stage or DASH}" for half in one.halves]
    if not pairs:
        named = (one.row.stage_seen if one.row else None, one.end.error_stage if one.end else None)
        return next((stage for stage in named if stage), DASH)
    return el("td", (el("div", pair) for pair in dict.fromkeys(pairs)))


def _released(one: RequestView) -> Markup:
    times = dict(one.row.received_to_released_ms) if one.row else {}
    for half in one.halves:
        if half.released_ms is not None:
            times.setdefault(half.role, half.released_ms)
    slowest = max(times.values(), default=None)
    lines = [el("div", f"{role} {milliseconds(value)}") for role, value in times.items()]
    return el("td", lines or DASH, class_="num", data_sort=slowest)


def _wasted(one: RequestView) -> Markup:
    if one.row:
        prefill, decode = one.row.wasted_prefill_tokens, one.row.wasted_decode_tokens
        return number(f"{prefill:,} + {decode:,}", prefill + decode)
    known = [half.wasted_tokens for half in one.halves if half.wasted_tokens is not None]
    return number(f"{sum(known):,}" if known else DASH, sum(known) if known else None)


def _summary(judged: AbortSummary) -> Markup:
    stages = Counter(judged.by_stage).most_common()
    facts = [
        f"{judged.count:,} aborts",
        f"act→seen {_quantiles(judged.act_to_seen_ms)}",
        f"received→released {_quantiles(judged.received_to_released_ms)}",
        f"{judged.wasted_tokens:,} tokens wasted",
    ]
    chips = [chip(f"{count} {stage}", "mute") for stage, count in stages]
    return el("p", (el("span", fact) for fact in facts), *chips, class_="facts")


def _quantiles(values: Quantiles) -> str:
    if not values.count and values.p50 is None:
        return "not measured"
    shown = (milliseconds(value) for value in (values.p50, values.p99, values.max))
    return "p50 {} · p99 {} · max {} ms".format(*shown)
