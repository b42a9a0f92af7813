"""The shrinker finds the fault that matters, counts "fails m of k", and never runs more than it may."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.codes import CutMode
from chaos.fault_spec import LinkFaultSpec
from chaos.shrink import Run, Shrinker, smaller_ones
from chaos.spec import Scenario, Step

LINKS = ("kv:p0-d0", "control:p0-d0", "bootstrap:p0-d0")


def scenario(*cuts: tuple[int, float]) -> Scenario:
    """Faults on these links (by number) for so long."""
    return Scenario(
        name="one",
        method=tuple(
            Step(
                at_s=10.0 * index,
                fault=LinkFaultSpec(mode=CutMode.STALL, links=(LINKS[link],), for_s=for_s),
            )
            for index, (link, for_s) in enumerate(cuts)
        ),
    )


def fails_if(condition: Callable[[Scenario], bool], check: str = "late") -> tuple[Run, list[int]]:
    count = [0]

    def run(candidate: Scenario) -> frozenset[str]:
        count[0] += 1
        return frozenset({check}) if condition(candidate) else frozenset()

    return run, count


def cuts_kv(candidate: Scenario, at_least_s: float = 0.0) -> bool:
    faults = [step.fault for step in candidate.method]
    return any(
        isinstance(fault, LinkFaultSpec)
        and fault.links == (LINKS[0],)
        and fault.for_s >= at_least_s
        for fault in faults
    )


def test_the_fault_that_matters_is_left_as_short_as_still_fails() -> None:
    run, _ = fails_if(lambda candidate: cuts_kv(candidate, at_least_s=1.0))
    tally = Shrinker(run, 2, 100, print).shrink(scenario((1, 3), (0, 3), (2, 3), (1, 2)))
    assert [step.fault.hold_s for step in tally.scenario.method] == [1.5]
    assert str(tally) == "fails 2 of 2 by late"


def test_two_faults_that_only_fail_together_stay_together() -> None:
    run, _ = fails_if(lambda candidate: len(candidate.method) >= 2 and cuts_kv(candidate))
    tally = Shrinker(run, 1, 100, print).shrink(scenario((1, 1), (0, 1), (2, 1)))
    assert len(tally.scenario.method) == 2
    assert cuts_kv(tally.scenario)


def test_a_failure_that_needs_no_fault_ends_without_one() -> None:
    run, _ = fails_if(lambda candidate: True)
    assert Shrinker(run, 1, 100, print).shrink(scenario((0, 1))).scenario.method == ()


def test_what_never_fails_is_said_and_left_alone() -> None:
    run, count = fails_if(lambda candidate: False)
    tally = Shrinker(run, 3, 100, print).shrink(scenario((0, 1)))
    assert (tally.num_failed, count[0]) == (0, 3)
    assert str(tally) == "fails 0 of 3"


def test_another_failure_is_not_the_one_that_is_shrunk() -> None:
    def run(candidate: Scenario) -> frozenset[str]:
        return frozenset({"late"} if cuts_kv(candidate) else {"spans_complete"})

    tally = Shrinker(run, 1, 100, print).shrink(scenario((1, 1), (0, 1)))
    assert cuts_kv(tally.scenario)
    assert tally.checks == ("late",)


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(4, 20))
def test_flaky_failures_are_counted_and_runs_are_bounded(
    seed: int, times: int, max_runs: int
) -> None:
    rng = random.Random(seed)
    run, count = fails_if(lambda candidate: cuts_kv(candidate) and rng.random() < 0.5)
    tally = Shrinker(run, times, max_runs, lambda text: None).shrink(scenario((1, 1), (0, 2)))
    assert count[0] <= max_runs
    assert tally.num_failed <= tally.num_runs == times
    assert not tally.num_failed or cuts_kv(tally.scenario)


@pytest.mark.parametrize("num_faults", [0, 1, 2, 5])
def test_every_candidate_is_smaller(num_faults: int) -> None:
    whole = scenario(*[(0, 1.0)] * num_faults)
    size = (num_faults, sum(step.fault.hold_s for step in whole.method))
    for what, candidate in smaller_ones(whole):
        held_s = sum(step.fault.hold_s for step in candidate.method)
        assert (len(candidate.method), held_s) < size, what
