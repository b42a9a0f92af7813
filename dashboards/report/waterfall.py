"""Waterfalls: the data of every aborted and failed request and of some completed ones.

Each is a closed ``<details>``; the page's script draws its rows when it is opened, from compact JSON in
which every text is kept once. So hundreds of requests cost neither layout nor many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dashboards.report.html import Markup, el, join, script_data
from dashboards.report.parts import anchor, chip, milliseconds, note, seconds, section
from dashboards.report.requests import LABELS, Group, RequestView
from dashboards.report.span_tree import Placed, place
from dashboards.spans import Span
from dashboards.where import as_text

MAX_HURT = 600
COMPLETED_SAMPLE = 9
SLOWEST_SAMPLE = 3
MAX_SPANS = 400
MAX_TEXT = 400
FAULT_ID = "pd.fault.id"


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A span. Texts are indexes into `Waterfalls.texts`; times are microseconds of the trace."""

    depth: int
    name: int
    service: int
    start_us: int
    duration_us: int
    status: int
    orphan: bool
    attributes: list[int]


class Waterfall(msgspec.Struct, frozen=True):
    """``facts``: label and value, what the client saw. ``left_out``: spans past `MAX_SPANS`."""

    facts: list[int]
    rows: list[Row]
    left_out: int


class Waterfalls(msgspec.Struct, frozen=True):
    texts: list[str]
    requests: list[Waterfall]


class _Texts:
    """Interns texts."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        short = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
        return self._index.setdefault(short, len(self._index))

    def all(self) -> list[str]:
        return list(self._index)


def waterfalls(requests: Sequence[RequestView], spans: Sequence[Span]) -> Markup:
    hurt = [one for one in requests if one.group is not Group.COMPLETED]
    sample = _sample([one for one in requests if one.group is Group.COMPLETED])
    chosen = [*hurt[:MAX_HURT], *sample]
    if not chosen:
        return section("Waterfalls", "waterfalls", note("No request was recorded."))
    faults = {span.span_id: name for span in spans if (name := span.text(FAULT_ID))}
    texts = _Texts()
    data = [_waterfall(one, texts, faults) for one in chosen]
    return section(
        "Waterfalls",
        "waterfalls",
        _legend(),
        el("noscript", note("The waterfalls are drawn by the page's script, which is off.")),
        _left_out(len(hurt)),
        el("h3", f"Aborted or failed ({min(len(hurt), MAX_HURT)})") if hurt else None,
        _list(chosen[: len(chosen) - len(sample)], 0),
        el("h3", f"Completed (a sample of {len(sample)}, the slowest among them)")
        if sample
        else None,
        _list(sample, len(chosen) - len(sample)),
        script_data("waterfalls-data", Waterfalls(texts.all(), data)),
    )


def _sample(completed: list[RequestView]) -> list[RequestView]:
    """The slowest and an even spread of the rest, in time order."""
    slowest = sorted(completed, key=_duration, reverse=True)[:SLOWEST_SAMPLE]
    names = {one.rid for one in slowest}
    rest = [one for one in completed if one.rid not in names]
    step = max(1, len(rest) // COMPLETED_SAMPLE)
    names |= {one.rid for one in rest[::step][:COMPLETED_SAMPLE]}
    return [one for one in completed if one.rid in names]


def _duration(one: RequestView) -> float:
    return 0.0 if one.end_s is None or one.due_s is None else one.end_s - one.due_s


def _list(requests: Sequence[RequestView], first: int) -> Markup:
    return join(_details(one, first + index) for index, one in enumerate(requests))


def _details(one: RequestView, index: int) -> Markup:
    took = (
        milliseconds(_duration(one) * 1000)
        if one.due_s is not None and one.end_s is not None
        else "?"
    )
    stages = ", ".join(dict.fromkeys(half.stage for half in one.halves if half.stage))
    count = f"{len(one.spans)} spans" if one.spans else "no spans"
    summary = el(
        "summary",
        el("b", one.rid, class_="request-id"),
        chip(one.outcome, one.group),
        el("span", one.reason or "", class_="why"),
        el("span", stages, class_="soft"),
        el("span", f"at {seconds(one.at_s)} s · {took} ms · {count}", class_="when"),
    )
    return el(
        "details",
        summary,
        el("div", class_="waterfall"),
        id=anchor(one.rid),
        class_="request",
        data_rid=one.rid,
        data_index=index,
    )


def _waterfall(one: RequestView, texts: _Texts, faults: dict[str, str]) -> Waterfall:
    placed = place(one.spans)
    shown = placed[:MAX_SPANS]
    origin = min((item.span.start_ns for item in placed), default=0)
    return Waterfall(
        facts=[texts(text) for pair in _facts(one) for text in pair],
        rows=[_row(item, origin, texts, faults) for item in shown],
        left_out=len(placed) - len(shown),
    )


def _row(item: Placed, origin: int, texts: _Texts, faults: dict[str, str]) -> Row:
    span = item.span
    pairs = [(key, as_text(value)) for key, value in span.attributes.items()]
    pairs += [("status message", span.status_message)] if span.status_message else []
    pairs += [("caused by fault", faults.get(link.span_id, link.span_id)) for link in span.links]
    pairs += [("instance", span.instance)] if span.instance else []
    pairs.append(("span id", span.span_id))
    return Row(
        depth=item.depth,
        name=texts(span.name),
        service=texts(span.service.removeprefix("severance-")),
        start_us=(span.start_ns - origin) // 1000,
        duration_us=max(0, span.end_ns - span.start_ns) // 1000,
        status=texts(span.status),
        orphan=item.orphan,
        attributes=[texts(text) for pair in pairs for text in pair],
    )


def _facts(one: RequestView) -> list[tuple[str, str]]:
    facts = [("outcome", LABELS[one.group] if one.outcome != "hung" else "hung: sent, never ended")]
    if one.sent:
        facts.append(("prompt", f"{one.sent.isl:,} tokens, {one.sent.max_new_tokens:,} asked for"))
        facts.append(("due", f"{seconds(one.due_s)} s"))
    for label, moment in (
        ("sent", one.sent_s),
        ("first token", one.first_s),
        ("client acted", one.act_s),
        ("end", one.end_s),
    ):
        if moment is not None and one.due_s is not None:
            facts.append((label, f"+{(moment - one.due_s) * 1000:.1f} ms"))
    if one.end:
        facts.append(("received", f"{one.end.osl:,} tokens"))
        facts += [("HTTP", str(one.end.status))] if one.end.status is not None else []
        facts += [("error", one.end.error_message)] if one.end.error_message else []
    facts.append(("trace", one.trace_id))
    return facts


def _left_out(count: int) -> Markup | None:
    if count <= MAX_HURT:
        return None
    return note(
        f"{count - MAX_HURT:,} more are left out to keep the page small;"
        " `severance export RUN --format jaeger` has them all."
    )


def _legend() -> Markup:
    roles = ("load", "prefill", "decode", "unified", "waiting", "abort")
    items = (el("span", el("i", class_=f"swatch s-{role}"), role) for role in roles)
    return el("p", items, el("span", "click a row for its attributes"), class_="legend")
