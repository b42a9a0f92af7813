"""The one time line: phases, faults, goodput, every abort and every guard on a common axis."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from chaos.records import EventKind, RunEvent
from dashboards.report import svg
from dashboards.report.clock import RunClock
from dashboards.report.faults import FaultView
from dashboards.report.html import Markup, el
from dashboards.report.parts import note, rid_link, section
from dashboards.report.requests import LABELS, Group, RequestView
from dashboards.report.svg import Scale

PHASE_HEIGHT = 18
FAULT_HEIGHT = 17
RATE_HEIGHT = 116
LANE_HEIGHT = 19
GAP = 12
MARGIN_S = 0.5
LABEL_WIDTH = 6.3
"""Pixels a character of a label takes, roughly; what does not fit is left to the tooltip."""

_LANES = (Group.DISCONNECT, Group.RID, Group.DEADLINE, Group.SERVER, Group.FAILED)
_MARKED = (EventKind.GUARD, EventKind.PROBE, EventKind.STEADY)


class _Part(NamedTuple):
    """What a layer drew, and where the next one begins."""

    shapes: list[Markup]
    bottom: float


def timeline(
    requests: Sequence[RequestView],
    faults: Sequence[FaultView],
    events: Sequence[RunEvent],
    clock: RunClock,
) -> Markup:
    extent = _extent(requests, faults)
    if extent is None:
        return section(
            "Time line", "timeline", note("Nothing to draw: no request and no fault was recorded.")
        )
    scale = svg.time_scale(*extent)
    phases = _phases(events, clock, scale, 0.0)
    lanes = _fault_lanes(faults, scale, phases.bottom)
    rate = _rate(requests, scale, lanes.bottom)
    marks = _aborts(requests, scale, rate.bottom)
    guards = _events(events, clock, scale, marks.bottom)
    shades = _shades(faults, scale, lanes.bottom, guards.bottom)
    axis = svg.time_axis(scale, phases.bottom, guards.bottom)
    layers = (shades, axis, phases.shapes, lanes.shapes, rate.shapes, marks.shapes, guards.shapes)
    chart = svg.figure(
        guards.bottom + 22, "Time line of the run", itertools.chain.from_iterable(layers)
    )
    return section("Time line", "timeline", chart, _legend(requests))


def _extent(
    requests: Sequence[RequestView], faults: Sequence[FaultView]
) -> tuple[float, float] | None:
    moments = [moment for one in requests for moment in (one.due_s, one.sent_s, one.end_s)]
    moments += [moment for one in faults for moment in (one.start_s, one.end_s)]
    known = [moment for moment in moments if moment is not None]
    return (min(known) - MARGIN_S, max(known) + MARGIN_S) if known else None


def _phases(events: Sequence[RunEvent], clock: RunClock, scale: Scale, top: float) -> _Part:
    starts = [(clock.wall(one.wall_ns), one.name) for one in events if one.kind is EventKind.PHASE]
    if not starts:
        return _Part([], top)
    ends = [start for start, _ in starts[1:]] + [scale.high]
    shapes = [svg.lane_label(top + 13, "phase")]
    for index, ((start, name), end) in enumerate(zip(starts, ends, strict=True)):
        left, right = scale(start), scale(end)
        if right - left < 1:
            continue
        shade = f"phase p{index % 2}"
        shapes.append(svg.rect(left, top, right - left, PHASE_HEIGHT, shade, f"phase {name}"))
        if _fits(name, right - left):
            shapes.append(svg.text(left + 5, top + 13, name, "small"))
    return _Part(shapes, top + PHASE_HEIGHT + 6)


def _fault_lanes(faults: Sequence[FaultView], scale: Scale, top: float) -> _Part:
    """A row a fault, in its own colour class, so that overlapping faults stay readable."""
    shapes = []
    for index, fault in enumerate(faults):
        y = top + index * FAULT_HEIGHT
        shapes.append(svg.lane_label(y + 12, _clip(fault.id, 17)))
        if fault.start_s is None:
            shapes.append(
                svg.text(svg.LEFT + 4, y + 12, f"never injected: {fault.journal}", "small")
            )
            continue
        left, right = (
            scale(fault.start_s),
            scale(scale.high if fault.end_s is None else fault.end_s),
        )
        width = max(2.0, right - left)
        state = "fault" if fault.end_s is not None else "fault open"
        shapes.append(svg.rect(left, y + 2, width, FAULT_HEIGHT - 5, state, _fault_tip(fault)))
        shapes.append(_fault_label(fault, left, left + width, y + 12))
    return _Part(shapes, top + len(faults) * FAULT_HEIGHT + GAP / 2)


def _fault_label(fault: FaultView, left: float, right: float, y: float) -> Markup:
    """Beside the bar, on the side that has room."""
    label = _clip(fault.label, 60)
    if _fits(label, svg.WIDTH - svg.RIGHT - right):
        return svg.text(right + 5, y, label, "small")
    return svg.text(left - 5, y, label, "small", "end")


def _fault_tip(fault: FaultView) -> str:
    length = "never healed" if fault.length_s is None else f"{fault.length_s:.2f} s"
    return f"{fault.id}: {fault.label}, {length}"


def _shades(faults: Sequence[FaultView], scale: Scale, top: float, bottom: float) -> list[Markup]:
    shades = []
    for fault in faults:
        if fault.start_s is not None:
            left = scale(fault.start_s)
            right = scale(scale.high if fault.end_s is None else fault.end_s)
            width = max(1.0, right - left)
            shades.append(svg.rect(left, top, width, bottom - top, "shade", _fault_tip(fault)))
    return shades


def _rate(requests: Sequence[RequestView], scale: Scale, top: float) -> _Part:
    """Requests per second: completed as bars (by their end), sent as a line (by their due time)."""
    done = _per_second([one.end_s for one in requests if one.group is Group.COMPLETED])
    due = _per_second([one.due_s for one in requests])
    peak = max((*done.values(), *due.values(), 1))
    bottom = top + RATE_HEIGHT
    height = Scale(0, peak, bottom, top + 6)
    shapes = [
        svg.lane_label(top + RATE_HEIGHT / 2 - 4, "goodput"),
        svg.lane_label(top + RATE_HEIGHT / 2 + 10, "requests/s"),
    ]
    for tick in svg.ticks(0, peak, 3):
        if tick == int(tick):
            y = height(tick)
            shapes.append(svg.line(svg.LEFT, y, svg.WIDTH - svg.RIGHT, y, "grid"))
            shapes.append(svg.text(svg.LEFT + 3, y - 2, f"{tick:g}", "tick"))
    for second, count in sorted(done.items()):
        left, right = scale(second), scale(second + 1)
        tip = f"{second} s: {count} completed, {due[second]} due"
        shapes.append(
            svg.rect(
                left + 0.5, height(count), right - left - 1, bottom - height(count), "done", tip
            )
        )
    if due:
        shapes.append(svg.path(_steps(due, scale, height), "sent", "requests due per second"))
    return _Part(shapes, bottom + GAP)


def _per_second(moments: Sequence[float | None]) -> Counter[int]:
    return Counter(math.floor(moment) for moment in moments if moment is not None)


def _steps(counts: Counter[int], scale: Scale, height: Scale) -> list[tuple[float, float]]:
    """A step line over whole seconds, down to zero at both ends."""
    first, last = min(counts), max(counts)
    points = [(scale(first), height(0))]
    for second in range(first, last + 1):
        y = height(counts[second])
        points += [(scale(second), y), (scale(second + 1), y)]
    return [*points, (scale(last + 1), height(0))]


def _aborts(requests: Sequence[RequestView], scale: Scale, top: float) -> _Part:
    shapes = []
    for index, group in enumerate(_LANES):
        y = top + index * LANE_HEIGHT
        members = [one for one in requests if one.group is group and one.at_s is not None]
        shapes.append(svg.lane_label(y + 11, f"{group} {len(members)}"))
        shapes.append(svg.line(svg.LEFT, y + 14, svg.WIDTH - svg.RIGHT, y + 14, "rail"))
        for one in members:
            x = scale(one.at_s or 0.0)
            tick = svg.line(x, y + 2, x, y + 14, f"tickmark {group}", _abort_tip(one))
            shapes.append(rid_link(one.rid, tick))
    return _Part(shapes, top + len(_LANES) * LANE_HEIGHT + 2)


def _abort_tip(one: RequestView) -> str:
    why = f", {one.reason}" if one.reason else ""
    return f"{one.at_s:.2f} s  {one.rid}: {one.outcome}{why}"


def _events(events: Sequence[RunEvent], clock: RunClock, scale: Scale, top: float) -> _Part:
    marked = [event for event in events if event.kind in _MARKED]
    inside = [one for one in marked if scale.low <= clock.wall(one.wall_ns) <= scale.high]
    if not inside:
        return _Part([], top)
    shapes = [
        svg.lane_label(top + 12, "guards, probes"),
        svg.line(svg.LEFT, top + 14, svg.WIDTH - svg.RIGHT, top + 14, "rail"),
    ]
    for event in inside:
        tone = "mute" if event.ok is None else "good" if event.ok else "bad"
        x = scale(clock.wall(event.wall_ns))
        radius = 5.0 if event.ok is False else 2.5
        shapes.append(svg.circle(x, top + 8, radius, f"event {tone}", event_tip(event, clock)))
    return _Part(shapes, top + LANE_HEIGHT)


def event_tip(event: RunEvent, clock: RunClock) -> str:
    state = "" if event.ok is None else " ok" if event.ok else " NOT ok"
    value = "" if event.value is None else f", {event.value:g}"
    limit = "" if event.limit is None else f" of {event.limit:g}"
    detail = f": {event.detail}" if event.detail else ""
    return (
        f"{clock.wall(event.wall_ns):.2f} s  {event.kind} {event.name}{state}{value}{limit}{detail}"
    )


def _legend(requests: Sequence[RequestView]) -> Markup:
    counts = Counter(one.group for one in requests)
    items = [
        el("span", el("i", class_=f"swatch {group}"), f"{LABELS[group]} {counts[group]}")
        for group in Group
    ]
    due = el("span", el("i", class_="swatch sent"), "due per second")
    fault = el("span", el("i", class_="swatch shade"), "fault on")
    return el("p", *items, due, fault, class_="legend")


def _fits(label: str, width: float) -> bool:
    return len(label) * LABEL_WIDTH + 8 < width


def _clip(label: str, length: int) -> str:
    return label if len(label) <= length else f"{label[: length - 1]}…"
