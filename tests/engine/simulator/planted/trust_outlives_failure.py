"""Optimistic prefill has ended, then its bootstrap fails, and nobody notices (sglang#31075)."""

from __future__ import annotations

from engine.core.prefill import PrefillScheduler
from engine.core.req import Req
from engine.core.rooms import Room
from tests.engine.simulator.planted.patch import Patch

_RIGHT = PrefillScheduler.handle_room_failure


def handle_room_failure(self: PrefillScheduler, req: Req, room: Room, now_ns: int) -> None:
    if req not in self.optimistic.parked:
        _RIGHT(self, req, room, now_ns)


PATCHES: tuple[Patch, ...] = ((PrefillScheduler, "handle_room_failure", handle_room_failure),)
