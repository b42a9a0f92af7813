"""A client's abort that comes while the last chunk runs is forgotten."""

from __future__ import annotations

from engine.core.cancellation import names
from engine.core.codes import Stage
from engine.core.io_struct import AbortReq
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def abort_request(self: Scheduler, recv: AbortReq, now_ns: int) -> int:
    return sum(
        self.mark(req, recv.reason, recv.origin, recv.message, recv.received_ns)
        for req in list(self.reqs.values())
        if names(recv, req.rid, req.room) and req.stage is not Stage.LAST_CHUNK
    )


PATCHES: tuple[Patch, ...] = ((Scheduler, "abort_request", abort_request),)
