"""Arrival times: the statistics that their names promise, and the same again for the same seed."""

from __future__ import annotations

import itertools
import statistics

import pytest

from loadtest.arrivals import ArrivalPattern, Arrivals


def gaps(arrivals: Arrivals, seed: int = 1, count: int = 20_000) -> list[float]:
    times = itertools.chain([0.0], itertools.islice(arrivals.due_times(seed), count))
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@pytest.mark.parametrize(
    ("pattern", "burstiness", "variation"),
    [
        (ArrivalPattern.POISSON, 1.0, 1.0),
        (ArrivalPattern.GAMMA, 1.0, 1.0),
        (ArrivalPattern.GAMMA, 4.0, 0.5),
        (ArrivalPattern.GAMMA, 0.25, 2.0),
        (ArrivalPattern.CONSTANT, 1.0, 0.0),
    ],
)
def test_mean_and_variation(pattern: ArrivalPattern, burstiness: float, variation: float) -> None:
    sample = gaps(Arrivals(pattern=pattern, rate=50.0, burstiness=burstiness))
    mean = statistics.fmean(sample)
    assert mean == pytest.approx(1 / 50, rel=0.05)
    assert statistics.pstdev(sample) / mean == pytest.approx(variation, abs=0.1)
    assert min(sample) >= 0


def test_poisson_counts_per_second_have_the_variance_of_their_mean() -> None:
    """A closed loop in disguise (a sleep after each task) would be far too even, or too slow."""
    times = itertools.takewhile(
        lambda due_s: due_s < 2000,
        Arrivals(pattern=ArrivalPattern.POISSON, rate=10.0).due_times(3),
    )
    counts = [0] * 2000
    for due_s in times:
        counts[int(due_s)] += 1
    assert statistics.fmean(counts) == pytest.approx(10, rel=0.05)
    assert statistics.pvariance(counts) == pytest.approx(10, rel=0.15)


def test_seed() -> None:
    arrivals = Arrivals(pattern=ArrivalPattern.GAMMA, rate=5.0, burstiness=2.0)
    assert gaps(arrivals, 7, 50) == gaps(arrivals, 7, 50)
    assert gaps(arrivals, 7, 50) != gaps(arrivals, 8, 50)
