"""Every planted bug is found: at its known seed quickly, from scratch within 1,000 schedules (slow)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.simulator import search as search_module
from engine.simulator.draw import Size, draw_schedule
from engine.simulator.oracle.violation import Law
from engine.simulator.schedule import load
from engine.simulator.shrink import shrink
from engine.simulator.simulation import simulate
from tests.engine.simulator.planted import PLANTED, planted
from tests.engine.simulator.planted.__main__ import MAX_SCHEDULES, first_failure
from tests.engine.simulator.planted.known import KNOWN


def test_every_planted_bug_is_known() -> None:
    assert set(KNOWN) == set(PLANTED)
    assert len(PLANTED) >= 10
    assert all(seed < MAX_SCHEDULES for seed, _ in KNOWN.values())


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_planted_bug_is_found_at_its_seed(name: str) -> None:
    seed, law = KNOWN[name]
    schedule = draw_schedule(seed, Size())
    with planted(*PLANTED[name]):
        violation = simulate(schedule).violation
    assert violation is not None
    assert violation.law is law
    assert simulate(schedule).violation is None, "the bug was not the only one"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_planted_bug_is_found_from_scratch(name: str) -> None:
    with planted(*PLANTED[name]):
        assert first_failure(MAX_SCHEDULES) is not None


def test_what_is_shrunk_still_fails() -> None:
    seed, law = KNOWN["chunk_abort_leaks_pages"]
    with planted(*PLANTED["chunk_abort_leaks_pages"]):
        small = shrink(draw_schedule(seed, Size()), law, max_runs=100)
        violation = simulate(small).violation
    assert violation is not None
    assert violation.law is Law.RELEASED_AT_ANSWER
    assert len(small.requests) <= 3
    assert len(small.faults) == 0
    assert simulate(small).violation is None


def test_search_writes_a_file_that_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, law = KNOWN["result_is_not_drained"]
    with planted(*PLANTED["result_is_not_drained"]):
        path = search_module.search(seed, 3, Size(), tmp_path)
        assert path is not None
        violation = simulate(load(path)).violation
    assert violation is not None
    assert violation.law is law
    out = capsys.readouterr().out
    assert f"severance simulate --replay {path}" in out
    assert simulate(load(path)).violation is None
