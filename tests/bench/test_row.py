"""Rows judge themselves, and what was not measured never passes."""

from __future__ import annotations

import math

import pytest

from bench.row import at_least, at_most, make_row, not_measured, percentile


@pytest.mark.parametrize(
    ("value", "passed"), [(0.79, False), (0.8, True), (1.2, True), (math.nan, False)]
)
def test_at_least(value: float, passed: bool) -> None:
    row = make_row("r", value, "", at_least(0.8), "how", samples=3)
    assert row.passed is passed


@pytest.mark.parametrize(("value", "passed"), [(5.01, False), (5.0, True), (0.0, True)])
def test_at_most(value: float, passed: bool) -> None:
    assert make_row("r", value, "ms", at_most(5), "how", samples=3).passed is passed


def test_a_miss_says_by_how_much() -> None:
    assert make_row("r", 6.0, "ms", at_most(5), "how", samples=1).missed_by == pytest.approx(0.2)
    assert make_row("r", 0.6, "", at_least(0.8), "how", samples=1).missed_by == pytest.approx(0.25)
    assert make_row("r", 1.0, "", at_least(0.8), "how", samples=1).missed_by is None


@pytest.mark.parametrize(("value", "samples"), [(math.nan, 5), (math.inf, 5), (0.0, 0)])
def test_nothing_measured_does_not_pass(value: float, samples: int) -> None:
    for target in (at_most(5), at_least(-5), None):
        row = make_row("r", value, "ms", target, "how", samples=samples)
        assert (row.passed, row.value) == (False, None)


def test_a_figure_without_a_target_is_not_judged() -> None:
    assert make_row("r", 3.0, "ms", None, "how", samples=1).passed is None
    assert not_measured("r", "", "", "why").passed is False


def test_percentile() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (
        50,
        99,
        100,
    )
    assert percentile([3.0], 99) == 3
    assert math.isnan(percentile([], 99))
