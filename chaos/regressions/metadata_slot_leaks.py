"""An abort keeps its metadata slot (after sglang#27374: slots of aborted requests were used again dirty)."""

from __future__ import annotations

from engine.core.pools import Pools
from engine.core.req import Req


def apply() -> None:
    release = Pools.maybe_release_metadata_buffer

    def release_unless_aborted(self: Pools, req: Req) -> None:
        if req.to_abort is None:
            release(self, req)

    Pools.maybe_release_metadata_buffer = release_unless_aborted  # type: ignore[method-assign]
