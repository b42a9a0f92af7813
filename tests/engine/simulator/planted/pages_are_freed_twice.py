"""Pages that are free are given back again when the request ends."""

from __future__ import annotations

from engine.core.pools import Pools
from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch


def release_kv_cache(self: Pools, req: Req) -> int:
    if req.page_ids:
        self.kv_pages.free(req.owner, req.page_ids)
    if req.req_slot is not None:
        self.req_slots.free(req.owner, (req.req_slot,))
        req.req_slot = None
    return len(req.page_ids)


PATCHES: tuple[Patch, ...] = ((Pools, "release_kv_cache", release_kv_cache),)
