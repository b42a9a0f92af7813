"""Heartbeats are sent only while a worker is at rest (after vllm#53095: a busy worker did not renew its
lease). Acks ride on beats: those of received frames still go out, as data traffic does."""

from __future__ import annotations

from engine.transfer.links import Links
from engine.transfer.session import Session

REST_NS = 2_000_000_000


def apply() -> None:
    tick = Links.tick
    beat = Links.beat
    busy_until_ns = 0

    def beat_at_rest(self: Links, session: Session, now_ns: int) -> None:
        if now_ns >= busy_until_ns:
            beat(self, session, now_ns)

    def tick_with_it(self: Links, now_ns: int) -> None:
        nonlocal busy_until_ns
        if self._pulse.rooms_open:
            busy_until_ns = now_ns + REST_NS
        Links.beat = beat_at_rest  # type: ignore[method-assign]
        try:
            tick(self, now_ns)
        finally:
            Links.beat = beat  # type: ignore[method-assign]

    Links.tick = tick_with_it  # type: ignore[method-assign]
