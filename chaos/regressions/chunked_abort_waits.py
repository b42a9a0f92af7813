"""An abort of a chunked prefill waits until the request leaves the chunk slot (before sglang#28086: all
its chunks were computed for nobody)."""

from __future__ import annotations

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
    _keep_results()


def _keep_results() -> None:
    """A mark must not stop the chunks from counting, or the slot would never be left."""
    from engine.core.disagg import DisaggScheduler
    from engine.core.req import Req

    drained = DisaggScheduler.is_drained

    def is_drained(self: DisaggScheduler, req: Req) -> bool:
        return drained(self, req) and req is not self._pending_chunked_abort_req

    DisaggScheduler.is_drained = is_drained  # type: ignore[method-assign]
