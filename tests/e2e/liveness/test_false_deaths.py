"""What must not look like a death: a long forward, a cold start, a log that nobody can write, a slow link."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.codes import LinkKind
from chaos.heal import heal_links
from chaos.toxiproxy.model import Toxic
from tests.e2e.liveness.pair import Pair
from tests.e2e.liveness.traffic import LATE, LONG, POOL_TOKENS, Traffic

pytestmark = pytest.mark.e2e


@contextmanager
def running_pair(directory: Path, **settings: object) -> Iterator[Pair]:
    pair = Pair(directory, max_total_tokens=POOL_TOKENS, **settings)  # type: ignore[arg-type]
    try:
        pair.start()
        yield pair
        pair.wait_clean()
    finally:
        pair.stop()


def check_nobody_died(pair: Pair) -> None:
    for half in pair.halves:
        assert half.aborts("peer_dead") == 0
        assert half.metric("severance_sessions_lost") == 0


def test_a_forward_of_3_s_is_no_death(tmp_path: Path) -> None:
    """On both halves, at the same time, while requests stand in every stage."""
    with running_pair(tmp_path, patch={"p0": "long_forward", "d0": "long_forward"}) as pair:
        traffic = Traffic(pair)
        traffic.learn()
        flights = traffic.fill_every_stage()
        began = time.monotonic()
        for half in pair.halves:
            half.signal_scheduler(signal.SIGUSR1)

        traffic.check_right([*flights, *traffic.send(LATE)])
        assert time.monotonic() - began > 3.0, "nothing was slow"
        traffic.check_small(within_s=2.0)
        check_nobody_died(pair)


@pytest.mark.slow
def test_a_cold_start_is_no_death(tmp_path: Path) -> None:
    """Both halves load for long and compute their first batch for 3 s; a restart does the same."""
    with running_pair(tmp_path, patch={"p0": "cold_start", "d0": "cold_start"}) as pair:
        traffic = Traffic(pair)
        traffic.learn()
        check_nobody_died(pair)
        pair.kill(pair.prefill)
        pair.start_half(pair.prefill)
        pair.wait_up(pair.prefill)
        deaths = pair.decode.aborts("peer_dead")

        traffic.check_right(traffic.send(LONG))
        assert pair.decode.aborts("peer_dead") == deaths
        assert pair.prefill.aborts("peer_dead") == 0


def test_a_full_disk_and_a_stuck_reader_of_the_log_stop_nobody(tmp_path: Path) -> None:
    """Prefill's log disk is full; decode's log is a pipe that nobody reads. Both log 4 KB a turn."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    logs = {"p0": Path("/dev/full"), "d0": pipe}
    try:
        with running_pair(tmp_path, patch=dict.fromkeys(logs, "chatty"), log_to=logs) as pair:
            traffic = Traffic(pair)
            traffic.learn()
            traffic.check_right(traffic.fill_every_stage())
            traffic.check_small(within_s=2.0)
            check_nobody_died(pair)
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "seconds",
    [
        4.0,
        pytest.param(60.0, marks=[pytest.mark.slow, pytest.mark.timeout(180)]),
        pytest.param(600.0, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_random_delay_on_every_link_is_no_death(
    pair: Pair, traffic: Traffic, seconds: float
) -> None:
    """0 to 500 ms, drawn for every chunk of bytes, and for every link and direction anew each second."""
    lost = [half.metric("severance_sessions_lost") for half in pair.halves]
    dead = [half.aborts("peer_dead") for half in pair.halves]
    draw = random.Random(4)
    ends_at = time.monotonic() + seconds
    flights = []
    try:
        while time.monotonic() < ends_at:
            delay_every_link(pair, draw)
            flights += traffic.send([*LATE, LONG[0]])
            time.sleep(1.0)  # how long a draw holds
    finally:
        assert not heal_links(pair.toxiproxy, list(pair.links.values())).left

    traffic.check_right(flights)
    assert [half.metric("severance_sessions_lost") for half in pair.halves] == lost
    assert [half.aborts("peer_dead") for half in pair.halves] == dead


def delay_every_link(pair: Pair, draw: random.Random) -> None:
    """Uniform between 0 and a mean of at most 250 ms, twice. A toxic that stands is changed in place."""
    for kind in LinkKind:
        link = pair.links[kind]
        standing = {toxic.name for toxic in pair.toxiproxy.client.proxy(link.proxy).toxics}
        for stream in ("upstream", "downstream"):
            mean_ms = draw.randint(50, 250)
            attributes = {"latency": mean_ms, "jitter": mean_ms}
            name = f"delay_{stream}"
            if name in standing:
                pair.toxiproxy.emergency.update_toxic(link.proxy, name, attributes)
            else:
                pair.toxiproxy.client.add_toxic(
                    link.proxy,
                    Toxic(name=name, type="latency", stream=stream, attributes=attributes),  # type: ignore[arg-type]
                )
