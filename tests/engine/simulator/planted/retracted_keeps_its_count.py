"""A retracted request goes on from the chunk that it had reached, in pages that are new."""

from __future__ import annotations

from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch

_RIGHT = Req.reset_for_retract


def reset_for_retract(self: Req) -> None:
    num_cached_tokens = self.num_cached_tokens
    had_output = bool(self.output)
    _RIGHT(self)
    if not had_output:
        self.num_cached_tokens = num_cached_tokens


PATCHES: tuple[Patch, ...] = ((Req, "reset_for_retract", reset_for_retract),)
