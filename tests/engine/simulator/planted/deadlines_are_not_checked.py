"""A half whose other half never comes waits for ever."""

from __future__ import annotations

from engine.core.disagg import DisaggScheduler
from tests.engine.simulator.planted.patch import Patch


def check_deadlines(self: DisaggScheduler, now_ns: int) -> None:
    self.rooms.expire(now_ns)


PATCHES: tuple[Patch, ...] = ((DisaggScheduler, "check_deadlines", check_deadlines),)
