"""A late state revives a failed room (sglang#24539); its result is not drained either."""

from __future__ import annotations

from engine.core.codes import KVPoll
from engine.core.disagg import DisaggScheduler
from engine.core.req import Req
from engine.core.rooms import RoomTable
from tests.engine.simulator.planted.patch import Patch


def update_status(self: RoomTable, room: int, state: KVPoll, now_ns: int) -> None:
    found = self.get(room)
    if found is not None and state > found.state:
        found.progress_ns = now_ns
        found.state = state
        self._changed[room] = None


def is_drained(self: DisaggScheduler, req: Req) -> bool:
    return req.is_aborted()


PATCHES: tuple[Patch, ...] = (
    (RoomTable, "update_status", update_status),
    (DisaggScheduler, "is_drained", is_drained),
)
