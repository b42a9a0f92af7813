"""What must not look like a death: a long forward, a cold start, a log that nobody can write, a slow link."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.liveness.conftest import running_traffic
from tests.e2e.liveness.cut import delayed_links
from tests.e2e.liveness.pair import Pair
from tests.e2e.liveness.patched import LONG_FORWARD_S, ONE_LONG_FORWARD
from tests.e2e.liveness.traffic import LATE, LONG, Traffic

pytestmark = pytest.mark.e2e


def counts(pair: Pair) -> list[tuple[float, float]]:
    """Deaths that each half has seen: requests that ended for them, and sessions."""
    return [
        (half.aborts("peer_dead"), half.metric("severance_sessions_lost")) for half in pair.halves
    ]


def test_a_full_disk_and_a_stuck_reader_of_the_log_stop_nobody(noisy: Traffic) -> None:
    before = counts(noisy.pair)
    noisy.check_right(noisy.fill_every_stage())

    noisy.check_small(within_s=2.0)
    assert counts(noisy.pair) == before


def test_a_forward_of_3_s_is_no_death(noisy: Traffic) -> None:
    """On both halves, at the same time, while requests stand in every stage."""
    before = counts(noisy.pair)
    flights = noisy.fill_every_stage()
    began = time.monotonic()
    noisy.had_long_step = True
    for half in noisy.pair.halves:
        half.signal_scheduler(ONE_LONG_FORWARD)

    noisy.check_right([*flights, *noisy.send(LATE)])
    assert time.monotonic() - began > LONG_FORWARD_S, "nothing was slow"
    noisy.check_small(within_s=2.0)
    assert counts(noisy.pair) == before


@pytest.mark.slow
def test_a_cold_start_is_no_death(tmp_path: Path) -> None:
    """Both halves load for long and compute their first batch for 3 s; a restart does the same."""
    with running_traffic(tmp_path, "cold_start") as traffic:
        pair = traffic.pair
        assert counts(pair) == [(0, 0), (0, 0)]
        pair.kill(pair.prefill)
        pair.start_dead()
        before = counts(pair)

        traffic.check_right(traffic.send(LONG))
        assert counts(pair) == before


@pytest.mark.parametrize(
    "seconds",
    [
        2.0,
        pytest.param(60.0, marks=[pytest.mark.slow, pytest.mark.timeout(180)]),
        pytest.param(600.0, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_random_delay_on_every_link_is_no_death(traffic: Traffic, seconds: float) -> None:
    """0 to 500 ms, drawn for every chunk of bytes, and for every link and direction anew each second."""
    pair = traffic.pair
    before = counts(pair)
    flights = []
    with delayed_links(pair, seed=4) as draw_again:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            draw_again()
            flights += traffic.send([*LATE, LONG[0]])
            time.sleep(1.0)  # how long a draw holds

    traffic.check_right(flights)
    assert counts(pair) == before
