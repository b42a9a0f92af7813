"""The last rank sees an abort one step after the others (sglang#34572)."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from engine.core.io_struct import AbortReq
from engine.core.peer import Inbound
from engine.simulator.ranks import Followers
from tests.engine.simulator.planted.patch import Patch

_LATE: WeakKeyDictionary[Followers, list[Inbound]] = WeakKeyDictionary()


def heard_by(self: Followers, rank: int, messages: list[Inbound]) -> list[Inbound]:
    if rank != len(self.cores):
        return messages
    late = _LATE.get(self, [])
    _LATE[self] = [message for message in messages if isinstance(message, AbortReq)]
    return late + [message for message in messages if not isinstance(message, AbortReq)]


PATCHES: tuple[Patch, ...] = ((Followers, "heard_by", heard_by),)
