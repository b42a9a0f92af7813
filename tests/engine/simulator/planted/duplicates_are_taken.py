"""A frame that was sent again is taken in again."""

from __future__ import annotations

from engine.transfer.windows import ReceiveWindow
from tests.engine.simulator.planted.patch import Patch

_RIGHT = ReceiveWindow.accept


def accept(self: ReceiveWindow, seq: int) -> bool:
    return _RIGHT(self, seq) or seq <= self.ack


PATCHES: tuple[Patch, ...] = ((ReceiveWindow, "accept", accept),)
