"""Schedules drawn from a seed: the same one each time, always within the load, always a good scenario."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ScenarioError
from chaos.scenario import dump_scenario, load_scenario

FILE = "name: one\ndeployment: {prefill: 2, decode: 2}\nload: {duration_s: 60}\ndraw: {faults: 4}\n"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("draw") / "one.yaml"
    file.write_text(FILE)
    return file


@given(seed=st.integers(0, 2**32))
def test_every_seed_gives_a_good_schedule_and_the_same_one(path: Path, seed: int) -> None:
    scenario = load_scenario(path, seed=seed)  # checks times, workers and links
    assert load_scenario(path, seed=seed) == scenario
    assert len(scenario.method) == 4
    assert scenario.draw is None
    ends = [step.at_s + step.fault.hold_s for step in scenario.method]
    begins = [step.at_s for step in scenario.method]
    assert all(begin - end >= 5.9 for end, begin in zip(ends, begins[1:], strict=False))


def test_seeds_differ(path: Path) -> None:
    methods = {str(load_scenario(path, seed=seed).method) for seed in range(20)}
    assert len(methods) == 20
    modes = {
        step.fault.mode for seed in range(40) for step in load_scenario(path, seed=seed).method
    }
    assert {"stall", "blackhole", "refuse", "reset", "one_way", "kill", "pause"} == modes


def test_what_was_drawn_stands_in_the_resolved_file(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path, seed=7)
    dump_scenario(scenario, tmp_path / "resolved.yaml")
    assert load_scenario(tmp_path / "resolved.yaml") == scenario


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("faults: 4", "faults: 9", "draw.faults"),
        ("faults: 4", "for_s: [3, 1]", "draw.for_s"),
        (
            "draw: {faults: 4}",
            "draw: {}\nmethod: [{at_s: 1, fault: {kind: process, mode: kill, worker: d0}}]",
            "draw",
        ),
        ("faults: 4", "of: []", "draw.of"),
    ],
)
def test_a_draw_that_cannot_be_is_named(tmp_path: Path, old: str, new: str, field: str) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    assert caught.value.field == field
