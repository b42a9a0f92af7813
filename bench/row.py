"""`BenchRow`: one measured figure beside its target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Target(msgspec.Struct, frozen=True):
    """A bound on the value, in the row's unit. ``text`` replaces the number in print."""

    limit: float
    at_most: bool
    text: str = ""

    def allows(self, value: float) -> bool:
        """NaN is no measurement and reaches nothing."""
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return self.text or f"{'<=' if self.at_most else '>='} {self.limit:,.4g}"


def at_most(limit: float, text: str = "") -> Target:
    return Target(limit, True, text)


def at_least(limit: float, text: str = "") -> Target:
    return Target(limit, False, text)


class BenchRow(msgspec.Struct, frozen=True, kw_only=True):
    """``passed`` None: a figure without a target. ``value`` None: nothing was measured, which never passes.

    ``how``: what was done, in one line. ``why_missed``: the known reason, shown only beside a missed
    target. ``missed_by``: the distance to the target as a share of it.
    """

    name: str
    target: str
    value: float | None
    unit: str
    passed: bool | None
    how: str
    p50: float | None = None
    p99: float | None = None
    samples: int | None = None
    missed_by: float | None = None
    why_missed: str = ""


def make_row(
    name: str,
    value: float,
    unit: str,
    target: Target | None,
    how: str,
    *,
    samples: int,
    p50: float | None = None,
    p99: float | None = None,
    why_missed: str = "",
) -> BenchRow:
    """A row with its own judgement. Without samples, or with a value that is no number: not measured."""
    if samples < 1 or not math.isfinite(value):
        return not_measured(name, str(target or ""), unit, f"no samples: {how}")
    passed = target.allows(value) if target else None
    missed_by = abs(value - target.limit) / target.limit if target and passed is False else None
    return BenchRow(
        name=name,
        target=str(target or ""),
        value=value,
        unit=unit,
        passed=passed,
        how=how,
        p50=p50,
        p99=p99,
        samples=samples,
        missed_by=missed_by,
        why_missed=why_missed,
    )


def not_measured(name: str, target: str, unit: str, why: str) -> BenchRow:
    return BenchRow(name=name, target=target, value=None, unit=unit, passed=False, how=why)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest that at least ``percent`` of the values do not exceed; NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
