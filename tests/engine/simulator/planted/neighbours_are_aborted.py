"""An abort of r1 also hits r12."""

from __future__ import annotations

from engine.core.io_struct import AbortReq
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def abort_request(self: Scheduler, recv: AbortReq, now_ns: int) -> int:
    return sum(
        self.mark(req, recv.reason, recv.origin, recv.message, recv.received_ns)
        for req in list(self.reqs.values())
        if req.rid.startswith(recv.rid)
    )


PATCHES: tuple[Patch, ...] = ((Scheduler, "abort_request", abort_request),)
