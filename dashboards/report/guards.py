"""Guards and probes that found something, in words; the time line has them all as dots."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.records import EventKind, RunEvent
from dashboards.report.clock import RunClock
from dashboards.report.html import Markup, el
from dashboards.report.parts import chip, note, number, row, section, table

MAX_ROWS = 100
_HEADS = ("#at s", "what", "", "#value", "#limit", "detail")


def guards(events: Sequence[RunEvent], clock: RunClock) -> Markup:
    judged = [event for event in events if event.ok is not None]
    bad = [event for event in judged if event.ok is False]
    probes = [event for event in judged if event.kind is EventKind.PROBE and event.ok]
    shown = sorted([*bad, *probes], key=lambda event: event.wall_ns)[:MAX_ROWS]
    summary = f"{len(judged):,} readings of guards and probes, {len(bad):,} of them not ok."
    if not judged:
        return section("Guards and probes", "guards", note("No guard and no probe was read."))
    body = table(_HEADS, (_row(event, clock) for event in shown)) if shown else None
    return section("Guards and probes", "guards", note(summary), body)


def _row(event: RunEvent, clock: RunClock) -> Markup:
    return row(
        number(f"{clock.wall(event.wall_ns):.1f}"),
        el("td", f"{event.kind} {event.name}", class_="name"),
        chip("ok", "good") if event.ok else chip("not ok", "bad"),
        number("" if event.value is None else f"{event.value:g}"),
        number("" if event.limit is None else f"{event.limit:g}"),
        event.detail,
    )
