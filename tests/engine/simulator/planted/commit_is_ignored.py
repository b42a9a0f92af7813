"""Prefill never hears that decode has every page."""

from __future__ import annotations

from engine.core.prefill import PrefillScheduler
from engine.core.req import Req
from engine.core.rooms import Room
from tests.engine.simulator.planted.patch import Patch


def finish_transfer(self: PrefillScheduler, req: Req, room: Room, now_ns: int) -> None:
    """Leave it in flight."""


PATCHES: tuple[Patch, ...] = ((PrefillScheduler, "_finish_transfer", finish_transfer),)
