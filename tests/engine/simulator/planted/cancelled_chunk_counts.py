"""A chunk whose forward was cancelled counts as computed."""

from __future__ import annotations

from engine.core.chunking import end_chunk
from engine.core.codes import Stage
from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch

_RIGHT = Scheduler._put_back


def put_back(self: Scheduler, batch: ScheduleBatch, now_ns: int) -> None:
    _RIGHT(self, batch, now_ns)
    for key, item in zip(batch.keys, batch.items, strict=True):
        req = self.reqs.get(key)
        if req is not None and req.stage is Stage.MID_CHUNK:
            end_chunk(req, len(item.input_ids), now_ns)


PATCHES: tuple[Patch, ...] = ((Scheduler, "_put_back", put_back),)
