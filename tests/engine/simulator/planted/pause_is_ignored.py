"""Generation goes on while it is paused."""

from __future__ import annotations

from engine.core.control import answer_control
from engine.core.io_struct import ControlReq
from engine.core.peer import Emit
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def control(self: Scheduler, message: ControlReq, now_ns: int) -> None:
    self.emit(Emit(message=answer_control(message, self)))


PATCHES: tuple[Patch, ...] = ((Scheduler, "_control", control),)
