"""What must look like a death, and be over when it is over: a loop that stands still, SIGKILL, SIGSTOP."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.codes import LinkKind
from engine.transfer.arrivals import MAX_CREDIT_BYTES
from tests.e2e.liveness.conftest import running_traffic
from tests.e2e.liveness.cut import CUTS, cut_link
from tests.e2e.liveness.pair import Half, Pair, wait_until
from tests.e2e.liveness.patched import GO_ON, STAND_STILL
from tests.e2e.liveness.traffic import LONG, Flight, Side, Spec, Traffic

pytestmark = pytest.mark.e2e
PAGE_BYTES = 64 << 10
"""Of the tiny model in float32."""
ENDS_WITHIN_S = 2.0
SERVES_WITHIN_S = 5.0
WEDGED_AFTER_S = 5.0
"""A loop that is longer in one step is dead (max(5 s, 10 x the longest step), DESIGN 2.3)."""


def other(pair: Pair, half: Half) -> Half:
    return pair.decode if half is pair.prefill else pair.prefill


def sides_at(half: Half, flights: Sequence[Flight]) -> list[Side]:
    return [side for flight in flights for side in flight.sides if side.half is half]


def check_ended(
    sides: Sequence[Side], since: float, within_s: float, also: frozenset[str] = frozenset()
) -> None:
    """All ended in time: with peer_dead (or ``also``), or whole. At least one found its peer dead."""
    late = [side.wait().ended_at - since for side in sides]
    assert max(late) < within_s, sorted(late)
    reasons = [side.reason for side in sides]
    assert set(reasons) <= {"peer_dead", "", *also}, reasons
    assert "peer_dead" in reasons


def serve_again(traffic: Traffic) -> None:
    """A request completes within 5 s, and the next one at once."""

    def completes() -> bool:
        (flight,) = traffic.send(LONG[:1])
        return flight.is_whole

    wait_until(completes, SERVES_WITHIN_S, "serving again")
    traffic.check_small(within_s=2.0)


# ---- a loop that stands still ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d0", pytest.param("p0", marks=pytest.mark.slow)])
def test_a_loop_that_stands_still_is_dead_though_its_process_beats(
    noisy: Traffic, name: str
) -> None:
    check_wedge(noisy, name)


@pytest.mark.slow
def test_a_forward_that_never_ends_is_dead(tmp_path: Path) -> None:
    with running_traffic(tmp_path, "wedged_forward") as traffic:
        for name in ("d0", "p0"):
            check_wedge(traffic, name)


def check_wedge(wedge: Traffic, name: str) -> None:
    pair = wedge.pair
    if wedge.had_long_step:
        pair.restart()
        wedge.had_long_step = False
    wedged = pair.decode if name == "d0" else pair.prefill
    flights = wedge.fill_every_stage()
    opened = [half.metric("severance_sessions_opened") for half in pair.halves]
    wedged.signal_scheduler(STAND_STILL)
    began = time.monotonic()
    healthy = sides_at(other(pair, wedged), flights[-len(LONG) :])

    # A room that waits for decode's memory may meet its own deadline first, which is 5 s as well.
    check_ended(healthy, began, WEDGED_AFTER_S + ENDS_WITHIN_S, frozenset({"bootstrap_timeout"}))
    dead = [side for side in healthy if side.reason == "peer_dead"]
    assert all(side.reply and b"stands still" in side.reply.body for side in dead)
    assert min(side.ended_at - began for side in dead) > WEDGED_AFTER_S - 0.5
    time.sleep(1.0)  # long enough to see whether sessions come and go meanwhile
    wedged.signal_scheduler(GO_ON)

    serve_again(wedge)
    for flight in flights:
        assert flight.prefill.wait()
        assert flight.decode.wait()
    wedge.had_long_step = True
    pair.wait_clean()
    gained = [
        half.metric("severance_sessions_opened") - before
        for half, before in zip(pair.halves, opened, strict=True)
    ]
    assert max(gained) <= 8, f"{gained} sessions were opened to a loop that stands still"


# ---- killed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p0", pytest.param("d0", marks=pytest.mark.slow)])
@pytest.mark.parametrize("in_transfer", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sigkill_in_every_state_and_restart_on_the_same_port(
    traffic: Traffic, name: str, in_transfer: bool
) -> None:
    pair = traffic.pair
    half = pair.prefill if name == "p0" else pair.decode
    flights = traffic.fill_every_stage()
    if in_transfer:  # pages are on their way, and stay there
        with cut_link(pair, LinkKind.KV, CUTS["stall"]):
            queues = pair.prefill.ledger
            wait_until(lambda: queues().queues["inflight"] > 0, 10, "pages in flight")
            pair.kill(half)
    else:
        pair.kill(half)
    killed_at = time.monotonic()

    left = other(pair, half)
    check_ended(sides_at(left, flights[-len(LONG) :]), killed_at, ENDS_WITHIN_S)
    running = flights[: -len(LONG)]
    if left is pair.decode:  # it has all that it needs of prefill
        assert [flight.decode.tokens for flight in running] == [
            traffic.expected(flight.spec) for flight in running
        ]
    wait_until(left.is_clean, 5, f"{left.name} clean")
    pair.start_half(half)
    pair.wait_up(half)

    serve_again(traffic)


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_its_worker_and_tells_everybody(traffic: Traffic) -> None:
    """HTTP answers each open request with 503 within 1 s and exits; the other half sees a dead peer."""
    pair = traffic.pair
    flights = traffic.fill_every_stage()
    pair.decode.signal_scheduler(signal.SIGKILL)
    killed_at = time.monotonic()

    own = sides_at(pair.decode, flights)
    assert {(side.status, side.reason) for side in own} == {(503, "shutdown")}
    assert max(side.ended_at for side in own) - killed_at < 1.0
    check_ended(sides_at(pair.prefill, flights[-len(LONG) :]), killed_at, ENDS_WITHIN_S)
    assert not pair.decode.is_up()
    assert pair.decode.running.wait(3.0)
    assert pair.decode.running.returncode() == 1
    pair.start_half(pair.decode)
    pair.wait_up(pair.decode)

    serve_again(traffic)


# ---- stopped --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d0", pytest.param("p0", marks=pytest.mark.slow)])
def test_the_other_half_of_a_stopped_one_goes_on(traffic: Traffic, name: str) -> None:
    pair = traffic.pair
    half = pair.decode if name == "d0" else pair.prefill
    left = other(pair, half)
    flights = traffic.fill_every_stage()
    half.signal_scheduler(signal.SIGSTOP)
    stopped_at = time.monotonic()
    try:
        check_ended(sides_at(left, flights[-len(LONG) :]), stopped_at, ENDS_WITHIN_S)
        more = traffic.send(LONG)
        for _ in range(3):
            left.get("/health_generate", timeout_s=2.0)
        assert left.is_up()
    finally:
        half.signal_scheduler(signal.SIGCONT)

    serve_again(traffic)
    for flight in [*flights, *more]:
        assert all(side.wait().status for side in flight.sides)


@pytest.mark.slow
def test_a_stopped_decode_fills_every_buffer_and_prefill_goes_on(tmp_path: Path) -> None:
    """sglang#31144. Nobody is declared dead here, so pages pile up until the credit of the link is used up;
    prefill's loop takes steps and serves others meanwhile, and afterwards nothing is lost."""
    flags = ("--peer-dead-after", "60", "--disaggregation-transfer-timeout", "60")
    with running_traffic(tmp_path, max_total_tokens=16_384, flags=flags) as traffic:
        pair = traffic.pair
        bulk = [Spec(f"bulk-{n}", 3_000, 4) for n in range(5)]
        traffic.learn(bulk)
        flights = traffic.send(bulk)
        wait_until(lambda: pair.decode.ledger().queues["transfer"] == len(bulk), 10, "all joined")
        pair.decode.signal_scheduler(signal.SIGSTOP)
        try:
            wait_until(
                lambda: pair.prefill.ledger().queues["inflight"] == len(bulk), 20, "all computed"
            )
            staged = pair.prefill.ledger().resources["staging_pages"]
            assert (staged.total - staged.free) * PAGE_BYTES > MAX_CREDIT_BYTES
            step = pair.prefill.ledger().step
            for _ in range(5):
                pair.prefill.get("/health_generate", timeout_s=2.0)
            assert pair.prefill.ledger().step > step
        finally:
            pair.decode.signal_scheduler(signal.SIGCONT)
        traffic.check_right(flights)
        traffic.check_small(within_s=2.0)
        pair.wait_clean()
