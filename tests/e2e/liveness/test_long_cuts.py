"""Cuts that are too long to go unnoticed: everything that they hurt ends soon on both sides, and the pair
serves again after the heal. And cuts of any length: nothing sticky.

The bounds are DESIGN's; they were set for workers that get their share of a processor (nice 0 here).
"""

from __future__ import annotations

import time

import pytest

from chaos.codes import LinkKind
from tests.e2e.liveness.cut import CUTS, SILENT, Cut, cut_link, hold
from tests.e2e.liveness.pair import wait_until
from tests.e2e.liveness.traffic import LATE, LONG, Flight, Traffic

pytestmark = pytest.mark.e2e
ENDS_WITHIN_S = 2.0
SERVES_WITHIN_S = 5.0
EXPLAINED = {"peer_dead", "bootstrap_timeout", "transfer_timeout", "transfer_failed"}


def serves_again(traffic: Traffic, healed_at: float) -> float:
    """Seconds from the heal to the end of a request that completes."""

    def completes() -> bool:
        (flight,) = traffic.send(LATE[:1])
        assert flight.is_whole or {side.reason for side in flight.sides} <= {"", *EXPLAINED}
        return flight.is_whole

    wait_until(completes, SERVES_WITHIN_S, "serving again")
    return time.monotonic() - healed_at


def check_explained(traffic: Traffic, flights: list[Flight]) -> None:
    """Each ended at both halves: complete and right, or with a code that the cut explains."""
    for flight in flights:
        for side in flight.sides:
            assert side.status == 200 or side.reason in EXPLAINED, (flight.rid, side.reason)
        if flight.decode.status == 200:
            assert flight.decode.tokens == traffic.expected(flight.spec)


def modes(quick: set[str]) -> list[object]:
    return [
        pytest.param(CUTS[name], id=name, marks=() if name in quick else (pytest.mark.slow,))
        for name in SILENT
    ]


@pytest.mark.parametrize("cut", modes({"blackhole-up"}))
def test_a_long_control_cut_ends_what_it_hurts_within_2_s(traffic: Traffic, cut: Cut) -> None:
    pair = traffic.pair
    flights = traffic.fill_every_stage()
    running, hurt = flights[: -len(LONG)], flights[-len(LONG) :]
    with cut_link(pair, LinkKind.CONTROL, cut) as cut_at:
        ended_s = [side.wait().ended_at - cut_at for flight in hurt for side in flight.sides]
        late = traffic.send(LATE)
        time.sleep(max(0.0, cut_at + 3.0 - time.monotonic()))  # how long the fault lasts
    healed_at = time.monotonic()

    assert max(ended_s) < ENDS_WITHIN_S, sorted(ended_s)
    assert any("peer_dead" in {side.reason for side in flight.sides} for flight in hurt)
    check_explained(traffic, [*hurt, *late])
    traffic.check_right([flight for flight in running if flight.prefill.status == 200])
    assert serves_again(traffic, healed_at) < SERVES_WITHIN_S
    traffic.check_small(within_s=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latency", "latency-up", "latency-down"])
@pytest.mark.parametrize("kind", list(LinkKind))
def test_a_slow_link_is_no_cut(traffic: Traffic, kind: LinkKind, name: str) -> None:
    """500 ms each way for 5 s: late, but nobody is dead."""
    flights = traffic.fill_every_stage()
    late: list[Flight] = []
    hold(traffic.pair, kind, CUTS[name], 5.0, lambda: late.extend(traffic.send(LATE)))

    traffic.check_right([*flights, *late])
    traffic.check_small(within_s=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 1.2, 1.5, 1.7, 2.2, 4.0, 6.0])
@pytest.mark.parametrize("name", ["stall", "blackhole", "refuse", "reset", "blackhole-down"])
@pytest.mark.parametrize("kind", [LinkKind.CONTROL, LinkKind.KV])
def test_after_a_cut_of_any_length_nothing_sticks(
    traffic: Traffic, kind: LinkKind, name: str, seconds: float
) -> None:
    flights = traffic.fill_every_stage()
    hold(traffic.pair, kind, CUTS[name], seconds, lambda: flights.extend(traffic.send(LATE)))
    healed_at = time.monotonic()

    assert serves_again(traffic, healed_at) < SERVES_WITHIN_S
    check_explained(traffic, flights)
    traffic.check_small(within_s=2.0)


@pytest.mark.slow
def test_a_kv_cut_past_the_transfer_deadline_ends_both_sides(traffic: Traffic) -> None:
    """12 s: the transfers time out, both halves let go, and the link serves again."""
    flights = traffic.fill_every_stage()
    hold(traffic.pair, LinkKind.KV, CUTS["blackhole"], 12.0)
    healed_at = time.monotonic()

    assert serves_again(traffic, healed_at) < SERVES_WITHIN_S
    check_explained(traffic, flights)
    assert any(side.reason == "transfer_timeout" for f in flights for side in f.sides)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 4.0])
@pytest.mark.parametrize("name", ["stall", "blackhole", "refuse"])
def test_all_three_links_at_once(traffic: Traffic, name: str, seconds: float) -> None:
    """A cable is pulled."""
    pair = traffic.pair
    flights = traffic.fill_every_stage()
    with (
        cut_link(pair, LinkKind.BOOTSTRAP, CUTS[name]),
        cut_link(pair, LinkKind.CONTROL, CUTS[name]),
        cut_link(pair, LinkKind.KV, CUTS[name]),
    ):
        time.sleep(seconds)  # how long the fault lasts
    healed_at = time.monotonic()

    if seconds <= 1.0:
        traffic.check_right(flights)
    assert serves_again(traffic, healed_at) < SERVES_WITHIN_S
    check_explained(traffic, flights)
