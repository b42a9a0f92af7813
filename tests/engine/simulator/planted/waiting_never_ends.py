"""The waiting timeout goes on counting while the request runs."""

from __future__ import annotations

from engine.core import deadlines
from engine.core.deadlines import DeadlineKind
from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch


def counts(req: Req, kind: DeadlineKind) -> bool:
    return not req.finished()


PATCHES: tuple[Patch, ...] = ((deadlines, "_counts", counts),)
