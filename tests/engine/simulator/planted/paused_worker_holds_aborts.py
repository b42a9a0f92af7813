"""A paused worker does nothing at all, so what is aborted stays where it is."""

from __future__ import annotations

from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch

_RIGHT = Scheduler.safe_point


def safe_point(self: Scheduler, now_ns: int) -> None:
    if not self.paused:
        _RIGHT(self, now_ns)


PATCHES: tuple[Patch, ...] = ((Scheduler, "safe_point", safe_point),)
