"""Prefill ignores an abort of a room that has not met its JOIN (found by the simulator)."""

from __future__ import annotations

from engine.core.codes import AbortVia
from engine.core.disagg import DisaggScheduler
from engine.core.peer import AbortRoom
from engine.core.rooms import RoomFailure
from tests.engine.simulator.planted.patch import Patch


def on_abort_room(self: DisaggScheduler, peer: str, message: AbortRoom, now_ns: int) -> None:
    failure = RoomFailure(
        reason=message.reason,
        origin=message.origin,
        via=AbortVia.PEER,
        message=message.message,
        at_ns=now_ns,
    )
    room = self.rooms.get(message.room)
    if room is None and self.rooms.terminal(message.room) is None:
        self._bury(message.room, peer, message.attempt, failure, now_ns)
    elif room is not None and message.attempt in (None, room.attempt):
        self._fail_room(room, failure, now_ns)


PATCHES: tuple[Patch, ...] = ((DisaggScheduler, "_on_abort_room", on_abort_room),)
