"""An abort in mid-chunk forgets the pages."""

from __future__ import annotations

from engine.core.codes import Stage
from engine.core.prefill import PrefillScheduler
from engine.core.req import Req
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def release_kv_cache(self: PrefillScheduler, req: Req) -> int:
    if req.is_aborted() and req.stage is Stage.MID_CHUNK:
        return 0
    return Scheduler.release_kv_cache(self, req)


PATCHES: tuple[Patch, ...] = ((PrefillScheduler, "release_kv_cache", release_kv_cache),)
