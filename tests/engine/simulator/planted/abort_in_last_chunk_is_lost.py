"""An abort that comes while the last chunk runs is forgotten."""

from __future__ import annotations

from engine.core.codes import Stage
from engine.core.req import AbortMark, Req
from tests.engine.simulator.planted.patch import Patch

_RIGHT = Req.mark_abort


def mark_abort(self: Req, mark: AbortMark) -> bool:
    return self.stage is not Stage.LAST_CHUNK and _RIGHT(self, mark)


PATCHES: tuple[Patch, ...] = ((Req, "mark_abort", mark_abort),)
