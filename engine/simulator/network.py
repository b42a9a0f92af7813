"""Links and their lanes: delay, stall, blackhole, refuse, reset, a direction at a time.

A link is what toxiproxy stands in for: one kind (bootstrap, control, kv) between one prefill and one decode.
Its heal semantics are toxiproxy's: a stall keeps everything and lets it go; a blackhole swallows silently
and closes the connection when it is healed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
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


class Network:
    """Every link by name (``control:p0-d0``), in a fixed order."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.links: dict[str, Link] = {}

    def add(self, kind: str, prefill: str, decode: str, delay_ns: int, jitter_ns: int) -> None:
        """A link of a pair: decode dials bootstrap and control, prefill dials kv."""
        name = f"{kind}:{prefill}-{decode}"
        client, server = (prefill, decode) if kind == "kv" else (decode, prefill)
        salt = 7919 * (len(self.links) + 1)
        forward = Lane(self.clock, delay_ns, jitter_ns, salt)
        back = Lane(self.clock, delay_ns, jitter_ns, salt + 1)
        self.links[name] = Link(name, client, server, forward, back)

    def between(self, kind: str, client: str, server: str) -> Link:
        pair = f"{client}-{server}" if kind == "kv" else f"{server}-{client}"
        return self.links[f"{kind}:{pair}"]
