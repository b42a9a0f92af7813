"""An abort of a running request frees its pages twice (after sglang#29834: an aborted entry stood in two
lists)."""

from __future__ import annotations

from engine.core.codes import Stage
from engine.core.req import Req
from engine.core.scheduler import Scheduler


def apply() -> None:
    release = Scheduler.release_kv_cache

    def release_twice(self: Scheduler, req: Req) -> int:
        pages = req.page_ids
        num_pages = release(self, req)
        if pages and req.to_abort is not None and req.to_abort.stage is Stage.RUNNING:
            self.pools.kv_pages.free(req.owner, pages)
        return num_pages

    Scheduler.release_kv_cache = release_twice  # type: ignore[method-assign]
