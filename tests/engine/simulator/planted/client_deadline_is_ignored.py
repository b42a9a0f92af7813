"""A request's own deadline is not kept."""

from __future__ import annotations

from engine.core.deadlines import DeadlineKind, Deadlines
from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch


def arrived(self: Deadlines, req: Req) -> None:
    if self._waiting_ns:
        self._push(req.recv.received_ns + self._waiting_ns, req, DeadlineKind.WAITING)


PATCHES: tuple[Patch, ...] = ((Deadlines, "arrived", arrived),)
