"""An abort by rid ends the first of two rooms that a router's retry has made of it."""

from __future__ import annotations

from engine.core.cancellation import names
from engine.core.io_struct import AbortReq
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def abort_request(self: Scheduler, recv: AbortReq, now_ns: int) -> int:
    matches = [req for req in self.reqs.values() if names(recv, req.rid, req.room)]
    if not recv.prefix and not recv.abort_all:
        matches = matches[:1]
    return sum(
        self.mark(req, recv.reason, recv.origin, recv.message, recv.received_ns) for req in matches
    )


PATCHES: tuple[Patch, ...] = ((Scheduler, "abort_request", abort_request),)
