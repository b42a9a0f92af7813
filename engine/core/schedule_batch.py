"""`ScheduleBatch`: one forward, and, frozen with it, whose it is (SGLang has this name)."""

from __future__ import annotations

import msgspec

from engine.core.batch import ForwardItem
from engine.core.peer import Attempt
from engine.core.req import ReqKey


class BatchMember(msgspec.Struct, frozen=True, kw_only=True):
    """A request in a batch, and what can end it while the batch runs.

    ``peer`` and ``attempt``: the other half, while its death or its abort would end this one; ``peer`` is
    None for a request that no peer can hurt. ``deadline_ns``: its nearest deadline, 0 for none.
    """

    rid: str
    room: int | None
    peer: str | None = None
    attempt: Attempt | None = None
    deadline_ns: int = 0

    @property
    def key(self) -> ReqKey:
        return (self.rid, self.room)


class ScheduleBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One member an item."""

    items: tuple[ForwardItem, ...]
    members: tuple[BatchMember, ...]

    @property
    def keys(self) -> tuple[ReqKey, ...]:
        return tuple(member.key for member in self.members)
