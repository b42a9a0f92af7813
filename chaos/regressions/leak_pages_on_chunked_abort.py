"""Each abort in mid-chunk leaks one KV page (after sglang#36926: a chunk result that lands after the
abort kept its tokens)."""

from __future__ import annotations

from engine.core.codes import Stage
from engine.core.req import Req
from engine.core.scheduler import Scheduler


def apply() -> None:
    release = Scheduler.release_kv_cache

    def release_all_but_one(self: Scheduler, req: Req) -> int:
        if req.to_abort is not None and req.to_abort.stage is Stage.MID_CHUNK:
            req.page_ids = req.page_ids[1:]
        return release(self, req)

    Scheduler.release_kv_cache = release_all_but_one  # type: ignore[method-assign]
