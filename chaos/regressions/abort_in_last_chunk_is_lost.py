"""An abort that meets the last chunk in flight is noted and dropped (after sglang#35255: a deferred abort
was lost if the request had left the chunk slot)."""

from __future__ import annotations

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage
from engine.core.disagg import DisaggScheduler
from engine.core.req import Req
from engine.core.rooms import Room
from engine.core.scheduler import Scheduler


def apply() -> None:
    mark = Scheduler.mark
    fail = DisaggScheduler.handle_room_failure

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

    def trust_the_mark(self: DisaggScheduler, req: Req, room: Room, now_ns: int) -> None:
        """The peer gave up too; a request that is marked is being aborted, so it seems."""
        if req.to_abort is None:
            fail(self, req, room, now_ns)

    Scheduler.mark = mark_and_forget  # type: ignore[method-assign]
    DisaggScheduler.handle_room_failure = trust_the_mark  # type: ignore[method-assign]
