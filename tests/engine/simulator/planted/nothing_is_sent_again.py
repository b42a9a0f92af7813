"""A gap in a session is never filled."""

from __future__ import annotations

from engine.transfer.windows import SendWindow
from tests.engine.simulator.planted.patch import Patch


def rewind(self: SendWindow, now_ns: int) -> None:
    self._progress_ns = now_ns


PATCHES: tuple[Patch, ...] = ((SendWindow, "rewind", rewind),)
