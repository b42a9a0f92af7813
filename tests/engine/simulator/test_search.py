"""A fixed set of schedules and a fresh one are clean; a run is its seed's, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from engine.simulator.campaign import Campaign, run_campaign
from engine.simulator.draw import Size, draw_schedule
from engine.simulator.replay import replay
from engine.simulator.schedule import LINK_FAULTS, ActKind, Schedule, load, save
from engine.simulator.simulation import simulate

FIXED_SEED = 20_000
NUM_PARTS = 5
NUM_FIXED = 20
NUM_FRESH = 10


def assert_clean(campaign: Campaign) -> None:
    if campaign.failure is not None:
        schedule, outcome = campaign.failure
        pytest.fail(
            f"{outcome.violation}\nreplay: severance simulate --schedules 1 --seed {schedule.seed}"
        )


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_fixed_schedules_are_clean(part: int) -> None:
    campaign = run_campaign(FIXED_SEED + part * NUM_FIXED, NUM_FIXED, Size(), lambda _: None)
    assert_clean(campaign)
    assert campaign.num_schedules == NUM_FIXED
    assert campaign.num_faults >= 3 * NUM_FIXED
    assert campaign.virtual_ms >= 10_000 * NUM_FIXED
    for end in (
        *("length", "stop", "client_abort", "client_disconnect", "deadline"),
        *("input_too_long", "peer_dead", "bootstrap_timeout", "connection_lost"),
    ):
        assert campaign.outcomes[end], f"nothing ended with {end}"
    assert campaign.outcomes["open"] == 0
    assert campaign.num_cancelled > NUM_FIXED
    assert campaign.num_acts


def test_fresh_schedules_are_clean(fresh_seed: int) -> None:
    assert_clean(run_campaign(fresh_seed, NUM_FRESH, Size(), lambda _: None))


def test_no_timeout_is_too_short_for_a_probe() -> None:
    """Seed 106654 had one: its idle pairs could not answer within it, so "serves again" was a false alarm."""
    for seed in (106_654, *range(2000)):
        topology = draw_schedule(seed, Size()).topology
        for timeout_ms in (topology.waiting_timeout_ms, topology.running_timeout_ms):
            assert not timeout_ms or timeout_ms >= 10 * topology.kv_delay_us / 1000
    assert simulate(draw_schedule(106_654, Size())).violation is None


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_fresh_schedules_are_clean(fresh_seed: int) -> None:
    assert_clean(run_campaign(fresh_seed, 10_000, Size(), lambda _: None))


@pytest.mark.parametrize("size", [(1, 1), (3, 1), (1, 3)])
def test_other_topologies_are_clean(size: tuple[int, int]) -> None:
    prefill, decode = size
    assert_clean(
        run_campaign(FIXED_SEED, 8, Size(num_prefill=prefill, num_decode=decode), lambda _: None)
    )


def test_same_seed_same_run() -> None:
    """Also in another process, whose strings hash differently."""
    schedule = draw_schedule(FIXED_SEED, Size())
    here = msgspec.json.encode(simulate(schedule))
    code = (
        "import msgspec, sys\n"
        "from engine.simulator.draw import Size, draw_schedule\n"
        "from engine.simulator.simulation import simulate\n"
        f"sys.stdout.buffer.write(msgspec.json.encode(simulate(draw_schedule({FIXED_SEED}, Size()))))"
    )
    for hash_seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        assert there == here


def test_a_rid_comes_again_in_the_moment_of_its_abort() -> None:
    again = 0
    for seed in range(40):
        requests = draw_schedule(seed, Size()).requests
        aborted_ms = {(r.rid, abort.at_ms) for r in requests for abort in r.aborts}
        again += sum((request.rid, request.at_ms) in aborted_ms for request in requests)
    assert again > 10


def test_other_seed_other_run() -> None:
    digests = {simulate(draw_schedule(seed, Size())).digest for seed in range(5)}
    assert len(digests) == 5


def test_schedule_survives_a_file(tmp_path: Path) -> None:
    schedule = draw_schedule(7, Size())
    save(schedule, tmp_path / "s.json")
    assert load(tmp_path / "s.json") == schedule


def test_replay_tells_what_happened_and_changes_nothing() -> None:
    schedule = draw_schedule(7, Size())
    outcome, lines = replay(schedule)
    assert outcome == simulate(schedule)
    text = "\n".join(lines)
    assert text.count("request r") >= 50
    assert text.count("fault") >= len(schedule.faults)
    assert "clean: every law held" in text


def test_every_kind_of_fault_and_abort_is_drawn() -> None:
    drawn: list[Schedule] = [draw_schedule(seed, Size()) for seed in range(60)]
    faults = [fault for schedule in drawn for fault in schedule.faults]
    assert len({fault.kind for fault in faults}) == 9
    cut = [fault.targets for fault in faults if fault.kind in LINK_FAULTS]
    assert {len(targets) for targets in cut} == {1, 2, 3}
    acts = [act for schedule in drawn for act in schedule.acts]
    assert {act.kind for act in acts} == set(ActKind)
    assert {schedule.topology.num_ranks for schedule in drawn} == {1, 2, 3}
    assert any(request.deadline_ms for s in drawn for request in s.requests)
    aborts = [abort for s in drawn for request in s.requests for abort in request.aborts]
    assert len({(abort.half, abort.disconnect) for abort in aborts}) == 6
