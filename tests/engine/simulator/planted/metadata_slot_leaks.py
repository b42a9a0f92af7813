"""A request that is aborted in the waiting queue keeps its metadata slot."""

from __future__ import annotations

from engine.core.codes import Stage
from engine.core.pools import Pools
from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch

_RIGHT = Pools.maybe_release_metadata_buffer


def maybe_release_metadata_buffer(self: Pools, req: Req) -> None:
    if req.stage is not Stage.WAITING:
        _RIGHT(self, req)


PATCHES: tuple[Patch, ...] = (
    (Pools, "maybe_release_metadata_buffer", maybe_release_metadata_buffer),
)
