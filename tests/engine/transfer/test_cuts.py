"""Cuts through real toxiproxy: up to 1 s on control and 2 s on kv, of any mode, lose and abort nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import product

import msgspec
import pytest

from chaos.heal import heal_links
from chaos.http import fetch
from chaos.ports import PortPool
from chaos.toxiproxy.model import Stream, Toxic
from chaos.toxiproxy.server import ToxiproxyServer
from engine.core.codes import AbortReason, PeerState
from tests.engine.transfer.live_pair import LivePair

LONGEST_S = {"control": 1.0, "kv": 2.0}
BOTH: tuple[Stream, ...] = ("upstream", "downstream")


def toxic(kind: str, stream: Stream, **attributes: int) -> Toxic:
    return Toxic(name=f"{kind}_{stream}", type=kind, stream=stream, attributes=attributes)


TOXICS: dict[str, tuple[Toxic, ...]] = {
    "stall": tuple(toxic("bandwidth", stream, rate=0) for stream in BOTH),
    "blackhole": tuple(toxic("timeout", stream, timeout=0) for stream in BOTH),
    "one_way_up": (toxic("timeout", "upstream", timeout=0),),
    "one_way_down": (toxic("timeout", "downstream", timeout=0),),
    "trickle": tuple(toxic("bandwidth", stream, rate=4) for stream in BOTH),
    "latency": tuple(toxic("latency", stream, latency=250, jitter=250) for stream in BOTH),
    "cut_after": tuple(toxic("limit_data", stream, bytes=700) for stream in BOTH),
}
DISABLED_S: dict[str, tuple[float, float]] = {"reset": (0.0, 0.0), "flap": (0.05, 0.15)}
"""Off and on for so long, again and again; ``refuse`` is off all the time."""
MODES = (*TOXICS, *DISABLED_S, "refuse")


@pytest.fixture
def pair(serve: Callable[..., ToxiproxyServer], ports: PortPool) -> Iterator[LivePair]:
    pair = LivePair(serve, ports)
    yield pair
    pair.close()


def enable(server: ToxiproxyServer, proxy: str, enabled: bool) -> None:
    body = msgspec.json.encode({"enabled": enabled})
    assert fetch(server.control, f"/proxies/{proxy}", method="POST", body=body).ok


class Cut:
    """One fault from start to heal, on a thread of its own: toxiproxy's calls may take their time."""

    def __init__(self, server: ToxiproxyServer, link: str, mode: str, for_s: float) -> None:
        self._server, self._proxy, self._mode, self._for_s = server, f"{link}:p0-d0", mode, for_s
        self.healed_s = 0.0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        until_s = time.monotonic() + self._for_s
        if self._mode in TOXICS:
            for each in TOXICS[self._mode]:
                self._server.client.add_toxic(self._proxy, each)
            time.sleep(max(0.0, until_s - time.monotonic()))
            heal_links(
                self._server, [link for link in self._server.links if str(link) == self._proxy]
            )
        else:
            self._switch(until_s)
        self.healed_s = time.monotonic()

    def _switch(self, until_s: float) -> None:
        off_s, on_s = DISABLED_S.get(self._mode, (self._for_s, 0.0))
        while True:
            enable(self._server, self._proxy, False)
            time.sleep(off_s)
            enable(self._server, self._proxy, True)
            time.sleep(on_s)
            if time.monotonic() >= until_s or not on_s:
                return


@pytest.mark.parametrize(("link", "mode"), list(product(LONGEST_S, MODES)))
def test_a_cut_that_is_short_enough_is_survived(pair: LivePair, link: str, mode: str) -> None:
    pair.meet()
    cut = Cut(pair.server, link, mode, LONGEST_S[link])
    pair.run(lambda: cut.is_over, within_s=10, ask_every_s=0.05)
    pair.run_for(0.2, ask_every_s=0.05)
    pair.run(pair.is_answered, within_s=5)
    pair.assert_nothing_was_lost()


@pytest.mark.parametrize("mode", ["reset", "blackhole", "refuse"])
@pytest.mark.parametrize("link", LONGEST_S)
def test_what_a_lost_connection_swallowed_is_sent_again_at_once(
    pair: LivePair, link: str, mode: str
) -> None:
    """One request alone: no later frame shows the gap, and no time-out (0.3 and 1.5 s) is waited for."""
    pair.meet()
    for _ in range(3):
        cut = Cut(pair.server, link, mode, 0.0 if mode == "reset" else 0.4)
        pair.run_for(0.02)
        pair.ask(num_tokens=4)
        pair.run(lambda cut=cut: cut.is_over, within_s=10)  # type: ignore[misc]
        pair.run(pair.is_answered, within_s=10)
        assert time.monotonic() - cut.healed_s < 1.0
    reconnects = sum(end.links.counters.reconnects for end in pair.ends)
    assert reconnects >= 3
    pair.assert_nothing_was_lost()


@pytest.mark.parametrize("mode", ["stall", "blackhole", "one_way_up", "one_way_down", "refuse"])
def test_a_longer_cut_of_control_aborts_and_the_pair_serves_again(
    pair: LivePair, mode: str
) -> None:
    pair.meet()
    pair.prefill.worker.core.paused = True
    rid = pair.ask()
    pair.run_for(0.2)
    began_s = time.monotonic()
    cut = Cut(pair.server, "control", mode, 3.0)
    pair.run(
        lambda: (
            all(end.worker.answers(rid) for end in pair.ends) and all(e.lost for e in pair.ends)
        ),
        within_s=2.5,
    )
    assert time.monotonic() - began_s < 2.5
    for end in pair.ends:
        (answer,) = end.worker.answers(rid)
        assert answer.finish is not None
        assert answer.finish.abort is not None
        assert answer.finish.abort.reason is AbortReason.PEER_DEAD
        assert end.links.peer_changes()[PeerState.DEAD] == 1
    pair.run(lambda: cut.is_over, within_s=10)
    pair.prefill.worker.core.paused = False
    again = pair.ask()
    pair.run(pair.is_answered, within_s=5)
    assert time.monotonic() - cut.healed_s < 5
    for end in pair.ends:
        (answer,) = end.worker.answers(again)
        assert answer.finish is not None
        assert answer.finish.type == "length"


def test_half_a_second_of_delay_each_way_keeps_no_pair_apart(pair: LivePair) -> None:
    """A connection and a greeting take longer than it takes to ask for the route again."""
    slow = tuple(toxic("latency", stream, latency=500) for stream in BOTH)
    for each in slow:
        pair.server.client.add_toxic("control:p0-d0", each)
    pair.ask()
    pair.run(pair.is_answered, within_s=8)
    pair.assert_nothing_was_lost()
