"""The last chunk of an aborted request is sent as if nothing had happened."""

from __future__ import annotations

from engine.core.prefill import PrefillScheduler
from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch


def is_drained(self: PrefillScheduler, req: Req) -> bool:
    return False


PATCHES: tuple[Patch, ...] = ((PrefillScheduler, "is_drained", is_drained),)
