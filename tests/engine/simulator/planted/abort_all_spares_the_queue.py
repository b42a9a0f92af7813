"""abort_all ends what runs and forgets what waits."""

from __future__ import annotations

from engine.core.cancellation import names
from engine.core.codes import Stage
from engine.core.io_struct import AbortReq
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch

_WAITS = (Stage.QUEUE, Stage.BOOTSTRAP, Stage.WAITING, Stage.PREALLOC)


def abort_request(self: Scheduler, recv: AbortReq, now_ns: int) -> int:
    return sum(
        self.mark(req, recv.reason, recv.origin, recv.message, recv.received_ns)
        for req in list(self.reqs.values())
        if names(recv, req.rid, req.room) and not (recv.abort_all and req.stage in _WAITS)
    )


PATCHES: tuple[Patch, ...] = ((Scheduler, "abort_request", abort_request),)
