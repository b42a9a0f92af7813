"""A half that aborts keeps it to itself."""

from __future__ import annotations

from engine.core.disagg import DisaggScheduler
from engine.core.rooms import Room, RoomFailure
from tests.engine.simulator.planted.patch import Patch


def tell_room_failure(self: DisaggScheduler, room: Room, failure: RoomFailure) -> bool:
    return True


PATCHES: tuple[Patch, ...] = ((DisaggScheduler, "_tell_room_failure", tell_room_failure),)
