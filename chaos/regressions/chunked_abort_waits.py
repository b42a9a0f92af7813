"""An abort of a chunked prefill waits until the request leaves the chunk slot (before sglang#28086: all
its chunks were computed for nobody)."""

from __future__ import annotations

from engine.core.disagg import DisaggScheduler
from engine.core.prefill import PrefillScheduler
from engine.core.req import Req
from engine.core.rooms import Room
from engine.core.scheduler import Scheduler
from engine.server.inbox import ForwardWatch


def apply() -> None:
    abort_now = Scheduler.process_pending_chunked_abort

    def abort_after_the_last_chunk(self: Scheduler, now_ns: int) -> None:
        if self.chunked_req is None:
            abort_now(self, now_ns)

    def go_on(self: ForwardWatch) -> bool:
        return False

    Scheduler.process_pending_chunked_abort = abort_after_the_last_chunk  # type: ignore[method-assign]
    ForwardWatch.should_stop = go_on  # type: ignore[method-assign]
    _heed_no_peer()


def _heed_no_peer() -> None:
    """The decode half was aborted too, and says so: that must not end the chunks either."""
    drained = PrefillScheduler.is_drained
    fail = DisaggScheduler.handle_room_failure

    def is_drained(self: PrefillScheduler, req: Req) -> bool:
        return bool(req.output) and drained(self, req)

    def fail_later(self: DisaggScheduler, req: Req, room: Room, now_ns: int) -> None:
        if req is self.chunked_req:
            self.rooms._changed[room.room] = None
        else:
            fail(self, req, room, now_ns)

    PrefillScheduler.is_drained = is_drained  # type: ignore[method-assign, assignment]
    DisaggScheduler.handle_room_failure = fail_later  # type: ignore[method-assign]
