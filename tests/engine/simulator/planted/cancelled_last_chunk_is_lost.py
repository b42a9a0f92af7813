"""A last chunk whose forward was cancelled never runs again."""

from __future__ import annotations

from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def put_back(self: Scheduler, batch: ScheduleBatch, now_ns: int) -> None:
    self.num_cancelled_forwards += 1


PATCHES: tuple[Patch, ...] = ((Scheduler, "_put_back", put_back),)
