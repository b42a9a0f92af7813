"""Scales, ticks and the few shapes that the charts use. Lengths are SVG user units (CSS pixels)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from dashboards.report.html import Child, Markup, el

WIDTH = 1080
LEFT = 118
RIGHT = 14
_STEPS = (1.0, 2.0, 5.0, 10.0)


class Scale(msgspec.Struct, frozen=True):
    """Linear: values ``low..high`` to pixels ``start..end``; what lies outside is clamped."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.0
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def time_scale(low: float, high: float) -> Scale:
    return Scale(low, max(high, low + 1.0), LEFT, WIDTH - RIGHT)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values in ``low..high``, roughly ``about`` of them."""
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * one for one in _STEPS if power * one >= span / about)
    first = math.ceil(low / step)
    return [step * index for index in range(first, math.floor(high / step) + 1)]


def figure(height: float, label: str, *children: Child | Iterable[Child]) -> Markup:
    return el(
        "svg",
        el("title", label),
        *children,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        class_="chart",
    )


def rect(x: float, y: float, width: float, height: float, class_: str, tip: str = "") -> Markup:
    return el("rect", _tip(tip), x=x, y=y, width=width, height=height, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, tip: str = "") -> Markup:
    return el("line", _tip(tip), x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def circle(x: float, y: float, radius: float, class_: str, tip: str = "") -> Markup:
    return el("circle", _tip(tip), cx=x, cy=y, r=radius, class_=class_)


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> Markup:
    return el("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def path(points: Sequence[tuple[float, float]], class_: str, tip: str = "") -> Markup:
    """A polyline through ``points``."""
    steps = " ".join(
        f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points)
    )
    return el("path", _tip(tip), d=steps, class_=class_)


def lane_label(y: float, content: str) -> Markup:
    return text(LEFT - 10, y, content, "lane", "end")


def time_axis(scale: Scale, top: float, bottom: float) -> list[Markup]:
    """Vertical grid lines with seconds under them."""
    parts = []
    for tick in ticks(scale.low, scale.high, 12):
        x = scale(tick)
        parts.append(line(x, top, x, bottom, "grid"))
        parts.append(text(x, bottom + 14, f"{tick:g} s", "tick", "middle"))
    return parts


def _tip(content: str) -> Markup | None:
    return el("title", content) if content else None
