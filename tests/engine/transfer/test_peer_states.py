"""alive, suspect, dead: a gauge, a counter and a line in the log; only silence for long is a verdict."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.codes import PeerState
from engine.core.peer import Connect, PeerLost, PeerUp
from engine.transfer.peer_states import MAX_PEERS, PeerStates
from engine.transfer.phi import MAX_PHI, SUSPECT_PHI, Phi
from tests.engine.transfer.test_links import (
    End,
    RouteServer,
    make_decode,
    make_prefill,
    publish,
    until,
)

MS = 1_000_000


@pytest.fixture
def route() -> Iterator[RouteServer]:
    server = RouteServer()
    yield server
    server.close()


def beating(period_ms: int, count: int = 50) -> tuple[Phi, int]:
    phi, now = Phi(0), 0
    for _ in range(count):
        now += period_ms * MS
        phi.heard(now)
    return phi, now


def test_silence_grows_more_surprising_the_longer_it_lasts() -> None:
    phi, now = beating(100)
    values = [phi.value(now + silence * MS) for silence in range(0, 1500, 50)]
    assert values == sorted(values)
    assert values[0] < 1
    assert phi.value(now + 300 * MS) < SUSPECT_PHI
    assert phi.value(now + 700 * MS) >= SUSPECT_PHI
    assert phi.value(now + 60_000 * MS) == MAX_PHI


def test_an_idle_peer_that_beats_rarely_is_not_suspect() -> None:
    phi, now = beating(300)
    assert phi.value(now + 400 * MS) < SUSPECT_PHI


def test_a_change_of_pace_is_not_suspect() -> None:
    phi, now = beating(100)
    for _ in range(5):
        assert phi.value(now + 300 * MS) < SUSPECT_PHI
        now += 300 * MS
        phi.heard(now)


def test_acks_in_a_row_do_not_make_the_next_pause_suspect() -> None:
    phi, now = beating(100)
    for _ in range(2000):
        now += MS // 2
        phi.heard(now)
    assert phi.value(now + 150 * MS) < SUSPECT_PHI


@given(st.lists(st.integers(0, 3000), max_size=200), st.integers(0, 100_000))
def test_phi_is_a_number_whatever_comes(gaps_ms: list[int], silence_ms: int) -> None:
    phi, now = Phi(0), 0
    for gap in gaps_ms:
        now += gap * MS
        phi.heard(now)
    assert 0.0 <= phi.value(now + silence_ms * MS) <= MAX_PHI


def test_changes_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    states = PeerStates("decode")
    with caplog.at_level(logging.INFO):
        states.alive("d0")
        states.heartbeat("d0", 1.0)
        states.heartbeat("d0", SUSPECT_PHI)
        states.heartbeat("d0", SUSPECT_PHI + 1)
        states.dead("d0")
        states.alive("d0")
    assert states.num_changes == {PeerState.ALIVE: 2, PeerState.SUSPECT: 1, PeerState.DEAD: 1}
    assert [record.getMessage().split(" (")[0] for record in caplog.records] == [
        "decode d0 is alive",
        "decode d0 is suspect",
        "decode d0 is dead",
        "decode d0 is alive",
    ]


def test_peers_that_are_gone_for_good_are_forgotten() -> None:
    states = PeerStates("decode")
    for number in range(2 * MAX_PEERS):
        states.dead(f"d{number}")
    assert len(states.samples()) == MAX_PEERS


def test_a_silent_peer_is_dead_and_alive_once_it_is_back(route: RouteServer) -> None:
    prefill, decode = make_prefill(), make_decode()
    publish(route, prefill)
    decode.links.connect(Connect(peer=route.address))
    ends: list[End] = [prefill, decode]
    until(ends, lambda: bool(prefill.got(PeerUp) and decode.got(PeerUp)))
    warm_s = time.monotonic() + 0.5
    until(ends, lambda: time.monotonic() > warm_s)
    assert [sample.state for sample in prefill.links.peer_samples()] == [PeerState.ALIVE]
    decode.is_frozen = True
    until(ends, lambda: bool(prefill.got(PeerLost)))
    assert prefill.links.peer_changes()[PeerState.DEAD] == 1
    assert [sample.state for sample in prefill.links.peer_samples()] == [PeerState.DEAD]
    decode.is_frozen = False
    until(ends, lambda: len(prefill.got(PeerUp)) == 2)
    assert [sample.state for sample in prefill.links.peer_samples()] == [PeerState.ALIVE]
    for end in ends:
        end.links.close()
