"""Ends of rooms are not remembered, so a late JOIN finds nobody."""

from __future__ import annotations

from engine.core.rooms import RoomTable, TerminalRoom
from tests.engine.simulator.planted.patch import Patch


def remember(self: RoomTable, end: TerminalRoom) -> None:
    """Forget it at once."""


PATCHES: tuple[Patch, ...] = ((RoomTable, "remember", remember),)
