"""Heartbeats stop while rooms are open (after vllm#53095: a busy worker did not renew its lease)."""

from __future__ import annotations

from engine.transfer.links import Links
from engine.transfer.session import Session


def apply() -> None:
    tick = Links.tick
    beat = Links.beat

    def beat_when_idle(self: Links, session: Session, now_ns: int) -> None:
        if not self._pulse.rooms_open:
            beat(self, session, now_ns)

    def tick_with_it(self: Links, now_ns: int) -> None:
        """Acks ride on beats: those of received frames still go out, as data traffic does."""
        Links.beat = beat_when_idle  # type: ignore[method-assign]
        try:
            tick(self, now_ns)
        finally:
            Links.beat = beat  # type: ignore[method-assign]

    Links.tick = tick_with_it  # type: ignore[method-assign]
