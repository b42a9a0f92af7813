"""Links and their lanes: delay, stall, blackhole, refuse, reset, a direction at a time.

A link is what toxiproxy stands in for: one kind (bootstrap, control, kv) between one prefill and one decode.
Its heal semantics are toxiproxy's: a stall keeps everything and lets it go; a blackhole swallows silently
and closes the connection when it is healed.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from engine.simulator.clock import VirtualClock

MAX_HELD = 2000
"""Messages that a stalled lane takes before the sender's socket is full (zmq's high-water marks)."""


class LaneMode(StrEnum):
    OPEN = "open"
    STALL = "stall"
    BLACKHOLE = "blackhole"


class Breakable(Protocol):
    """A connection, seen from its link."""

    def lose(self) -> None:
        """Both ends find the connection closed."""
        ...


class Lane:
    """One direction of a link, first in first out."""

    def __init__(self, clock: VirtualClock, delay_ns: int, jitter_ns: int, salt: int) -> None:
        self._clock = clock
        self._delay_ns = delay_ns
        self._jitter_ns = jitter_ns
        self._state = salt
        self._last_ns = 0
        self._held: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self.extra_ns = 0
        self.mode = LaneMode.OPEN
        self.num_lost = 0

    @property
    def is_full(self) -> bool:
        return len(self._held) >= MAX_HELD

    def carry(self, deliver: Callable[..., None], *args: object) -> None:
        """Call ``deliver(*args)`` at the other end, if and when the lane lets it through."""
        if self.mode is LaneMode.STALL:
            self._held.append((deliver, args))
        elif self.mode is LaneMode.BLACKHOLE:
            self.num_lost += 1
        else:
            self._last_ns = max(self._last_ns, self._clock.now_ns + self.latency_ns())
            self._clock.at(self._last_ns, deliver, *args)

    def latency_ns(self) -> int:
        self._state = (self._state * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        return self._delay_ns + self.extra_ns + (self._state >> 8) % self._jitter_ns

    def heal(self) -> None:
        self.mode = LaneMode.OPEN
        self.extra_ns = 0
        held, self._held = self._held, deque()
        for deliver, args in held:
            self.carry(deliver, *args)


@dataclass(slots=True)
class Link:
    """``client`` dials ``server``. Connections of it are lost together."""

    name: str
    client: str
    server: str
    forward: Lane
    back: Lane
    refusing: bool = False
    connections: list[Breakable] = field(default_factory=list)

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        return (self.forward, self.back)

    @property
    def is_open(self) -> bool:
        """Can a new connection be made?"""
        return not self.refusing and all(lane.mode is LaneMode.OPEN for lane in self.lanes)

    def reset(self) -> None:
        """Every connection is closed at once; what was on its way is gone."""
        for connection in list(self.connections):
            connection.lose()

    def heal(self) -> None:
        swallowed = any(lane.mode is LaneMode.BLACKHOLE for lane in self.lanes)
        self.refusing = False
        for lane in self.lanes:
            lane.heal()
        if swallowed:
            self.reset()


@dataclass(slots=True, frozen=True)
class Wire:
    """How long a message takes on links of one kind."""

    delay_ns: int
    jitter_ns: int


class Network:
    """Links by name (``control:p0-d0``), made when they are first asked for: most pairs of a large fleet
    never meet."""

    def __init__(self, clock: VirtualClock, wires: Mapping[str, Wire]) -> None:
        self.clock = clock
        self.links: dict[str, Link] = {}
        self._wires = wires

    def link(self, name: str) -> Link:
        """Decode dials bootstrap and control, prefill dials kv."""
        found = self.links.get(name)
        if found is None:
            found = self._make(name)
            self.links[name] = found
        return found

    def _make(self, name: str) -> Link:
        kind, _, pair = name.partition(":")
        prefill, _, decode = pair.partition("-")
        client, server = (prefill, decode) if kind == "kv" else (decode, prefill)
        wire, salt = self._wires[kind], zlib.crc32(name.encode()) & 0x7FFFFFFE
        forward = Lane(self.clock, wire.delay_ns, wire.jitter_ns, salt)
        back = Lane(self.clock, wire.delay_ns, wire.jitter_ns, salt + 1)
        return Link(name, client, server, forward, back)

    def between(self, kind: str, client: str, server: str) -> Link:
        pair = f"{client}-{server}" if kind == "kv" else f"{server}-{client}"
        return self.link(f"{kind}:{pair}")
