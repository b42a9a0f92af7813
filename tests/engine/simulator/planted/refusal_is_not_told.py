"""A full queue turns a request away and the other half is not told (found by the simulator)."""

from __future__ import annotations

from engine.core.disagg import DisaggScheduler
from engine.core.req import Req
from engine.core.rooms import RoomFailure
from tests.engine.simulator.planted.patch import Patch


def refuse_room(
    self: DisaggScheduler, req: Req, number: int, failure: RoomFailure, now_ns: int
) -> None:
    """Keep it to ourselves."""


PATCHES: tuple[Patch, ...] = ((DisaggScheduler, "_refuse_room", refuse_room),)
