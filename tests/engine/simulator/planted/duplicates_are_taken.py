"""A frame that was sent again is taken twice."""

from __future__ import annotations

from engine.transfer.windows import ReceiveWindow
from tests.engine.simulator.planted.patch import Patch


def accept(self: ReceiveWindow, seq: int) -> bool:
    if seq <= self.ack + 1:
        self.ack = seq
        self.has_gap = False
        return True
    self.has_gap = True
    return False


PATCHES: tuple[Patch, ...] = ((ReceiveWindow, "accept", accept),)
