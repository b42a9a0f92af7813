"""Every way in which a link can be cut, as data."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from chaos.codes import LinkKind
from chaos.heal import heal_links
from chaos.http import fetch
from chaos.links import Link
from chaos.toxiproxy.model import Stream, Toxic
from chaos.toxiproxy.server import ToxiproxyServer
from tests.e2e.liveness.pair import Pair

STREAMS: tuple[Stream, ...] = ("upstream", "downstream")


class Held(msgspec.Struct, frozen=True):
    """How a cut went: when it was on, and how long from its first toxic to the last one's end."""

    cut_at: float
    lasted_s: float


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """``toxics``: (type, direction, attribute, value). ``refuse``: the proxy is disabled.

    Direction upstream: from the worker that dials. Units are toxiproxy's: KB/s, ms, bytes.
    ``is_slow``: bytes still pass, so the peer never falls silent, however long it lasts.
    """

    name: str
    toxics: tuple[tuple[str, Stream, str, int], ...] = ()
    refuse: bool = False
    is_slow: bool = False

    def __str__(self) -> str:
        return self.name

    def put_on(self, server: ToxiproxyServer, link: Link) -> None:
        if self.refuse:
            _enable(server, link, False)
        for kind, stream, attribute, value in self.toxics:
            toxic = Toxic(
                name=f"{kind}_{stream}", type=kind, stream=stream, attributes={attribute: value}
            )
            server.client.add_toxic(link.proxy, toxic)

    def blocks_new_requests(self, kind: LinkKind) -> bool:
        """Must a new request wait for its end? JOIN goes up `control`, pages go up `kv`."""
        goes_up = self.refuse or any(stream == "upstream" for _, stream, _, _ in self.toxics)
        return goes_up and not self.is_slow and kind is not LinkKind.BOOTSTRAP

    def take_off(self, server: ToxiproxyServer, link: Link) -> None:
        if self.refuse:
            _enable(server, link, True)
        assert not (report := heal_links(server, [link])).left, report


def _both(name: str, kind: str, attribute: str, value: int, is_slow: bool = False) -> list[Cut]:
    """A toxic in both directions, and in each alone."""
    up, down = ((kind, stream, attribute, value) for stream in STREAMS)
    return [
        Cut(name=name, toxics=(up, down), is_slow=is_slow),
        Cut(name=f"{name}-up", toxics=(up,), is_slow=is_slow),
        Cut(name=f"{name}-down", toxics=(down,), is_slow=is_slow),
    ]


CUTS: dict[str, Cut] = {
    cut.name: cut
    for cut in [
        *_both("stall", "bandwidth", "rate", 0),
        *_both("blackhole", "timeout", "timeout", 0),
        *_both("reset", "reset_peer", "timeout", 0),
        *_both("cut-after", "limit_data", "bytes", 2_000, is_slow=True),
        Cut(name="refuse", refuse=True),
        *_both("latency", "latency", "latency", 500, is_slow=True),
        *_both("trickle", "bandwidth", "rate", 256, is_slow=True),
        *_both("slicer", "slicer", "average_size", 64, is_slow=True),
    ]
}
SILENT = tuple(name for name, cut in CUTS.items() if not cut.is_slow)


def _enable(server: ToxiproxyServer, link: Link, enabled: bool) -> None:
    body = msgspec.json.encode({"enabled": enabled})
    reply = fetch(server.control, f"/proxies/{link.proxy}", method="POST", body=body, timeout_s=2.0)
    assert reply.ok, reply.body
    assert server.client.proxy(link.proxy).enabled is enabled


@contextmanager
def cut_link(pair: Pair, kind: LinkKind, cut: Cut) -> Iterator[float]:
    """The link is cut inside; yields the moment when the cut was on. It is healed in any case."""
    link = pair.links[kind]
    try:
        cut.put_on(pair.toxiproxy, link)
        yield time.monotonic()
    finally:
        cut.take_off(pair.toxiproxy, link)


def do_nothing() -> None:
    """What `hold` does if nothing else is asked."""


def hold(
    pair: Pair,
    kind: LinkKind,
    cut: Cut,
    seconds: float,
    during: Callable[[], None] = do_nothing,
    look: Callable[[], None] = do_nothing,
) -> Held:
    """Cut a link for ``seconds``, its making included; the heal comes on top.

    ``during`` is called when the cut is on, ``look`` right before the heal.
    """
    began = time.monotonic()
    with cut_link(pair, kind, cut) as cut_at:
        during()
        time.sleep(max(0.0, began + seconds - time.monotonic()))  # how long the fault lasts
        look()
    return Held(cut_at, time.monotonic() - began)


@contextmanager
def delayed_links(pair: Pair, seed: int) -> Iterator[Callable[[], None]]:
    """Yields a function that draws new delays for every link and direction: 0 to 500 ms for each chunk of
    bytes, around a mean of 50 to 250 ms. All are gone at the end."""
    draw = random.Random(seed)
    try:
        yield lambda: _delay_every_link(pair, draw)
    finally:
        assert not heal_links(pair.toxiproxy, list(pair.links.values())).left


def _change_toxic(pair: Pair, proxy: str, name: str, attributes: dict[str, int]) -> None:
    body = msgspec.json.encode({"attributes": attributes})
    path = f"/proxies/{proxy}/toxics/{name}"
    assert fetch(pair.toxiproxy.control, path, method="POST", body=body, timeout_s=2.0).ok


def _delay_every_link(pair: Pair, draw: random.Random) -> None:
    """A toxic that stands is changed in place: taken off, it would let everything through at once."""
    for link in pair.links.values():
        standing = {toxic.name for toxic in pair.toxiproxy.client.proxy(link.proxy).toxics}
        for stream in STREAMS:
            mean_ms = draw.randint(50, 250)
            attributes = {"latency": mean_ms, "jitter": mean_ms}
            toxic = Toxic(
                name=f"delay_{stream}", type="latency", stream=stream, attributes=attributes
            )
            if toxic.name in standing:
                _change_toxic(pair, link.proxy, toxic.name, attributes)
            else:
                pair.toxiproxy.client.add_toxic(link.proxy, toxic)
