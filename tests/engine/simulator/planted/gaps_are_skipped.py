"""A frame behind a gap is taken as if nothing were missing."""

from __future__ import annotations

from engine.transfer.windows import ReceiveWindow
from tests.engine.simulator.planted.patch import Patch


def accept(self: ReceiveWindow, seq: int) -> bool:
    if seq <= self.ack:
        return False
    self.ack = seq
    return True


PATCHES: tuple[Patch, ...] = ((ReceiveWindow, "accept", accept),)
