"""An abort that meets the last chunk in flight is noted and dropped (after sglang#35255: a deferred abort
was lost if the request had left the chunk slot)."""

from __future__ import annotations

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage
from engine.core.req import Req
from engine.core.scheduler import Scheduler


def apply() -> None:
    mark = Scheduler.mark

    def mark_and_forget(
        self: Scheduler,
        req: Req,
        reason: AbortReason,
        origin: AbortOrigin,
        message: str,
        received_ns: int,
        via: AbortVia = AbortVia.LOCAL,
    ) -> bool:
        marked = mark(self, req, reason, origin, message, received_ns, via)
        if req.stage is Stage.LAST_CHUNK and req in self._pending_aborts:
            self._pending_aborts.remove(req)
        return marked

    Scheduler.mark = mark_and_forget  # type: ignore[method-assign]
