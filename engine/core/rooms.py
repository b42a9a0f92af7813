"""`RoomTable`: the state of every bootstrap room of a worker, with fencing, tombstones and a memory of ends.

SGLang's `CommonKVManager.update_status` takes max(old, new), so a late frame revives a Failed room
(sglang#24539). Here `KVPoll.Failed` and `KVPoll.Success` absorb until the room is closed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, KVPoll
from engine.core.peer import Attempt
from engine.core.room_watch import RoomWatch

MAX_TERMINAL_ROOMS = 8192


@dataclass(slots=True, frozen=True, kw_only=True)
class RoomFailure:
    reason: AbortReason
    origin: AbortOrigin
    via: AbortVia
    message: str
    at_ns: int


@dataclass(slots=True, kw_only=True)
class Room:
    """``progress_ns``: last sign of life; deadlines count from it. ``asked_ns``: last query about it.

    ``joined``: both halves know of each other, so the end of one must be told to the other.
    """

    room: int
    opened_ns: int
    progress_ns: int
    asked_ns: int
    state: KVPoll = KVPoll.Bootstrapping
    peer: str | None = None
    attempt: Attempt | None = None
    joined: bool = False
    has_request: bool = False
    num_pages: int = 0
    failure: RoomFailure | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class TerminalRoom:
    """How a room ended. ``failure`` None: it succeeded. ``told``: the peer has heard of the failure."""

    room: int
    peer: str | None
    attempt: Attempt | None
    failure: RoomFailure | None
    told: bool
    at_ns: int


class RoomTable:
    """Open rooms by number, and the ends of closed ones, bounded in number and time."""

    def __init__(self, keep_ns: int, look_ns: int) -> None:
        self._keep_ns = keep_ns
        self._look_ns = look_ns
        self._open: dict[int, Room] = {}
        self._terminal: OrderedDict[int, TerminalRoom] = OrderedDict()
        self._changed: dict[int, None] = {}
        self.watch = RoomWatch()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def num_terminal(self) -> int:
        return len(self._terminal)

    def get(self, room: int) -> Room | None:
        return self._open.get(room)

    def open(self, room: int, now_ns: int) -> Room:
        """The open room of this number, made if need be."""
        found = self._open.get(room)
        if found is None:
            found = Room(room=room, opened_ns=now_ns, progress_ns=now_ns, asked_ns=now_ns)
            self._open[room] = found
            self.watch.arm(room, now_ns + self._look_ns)
        return found

    def update_status(self, room: int, state: KVPoll, now_ns: int) -> None:
        """Advance a room. Never backwards, never out of Failed or Success, never for an unknown room."""
        found = self._open.get(room)
        if found is None or found.state in (KVPoll.Failed, KVPoll.Success):
            return
        found.progress_ns = now_ns
        if state > found.state:
            found.state = state
            self._changed[room] = None

    def fail(self, room: int, failure: RoomFailure) -> bool:
        """Failed, from any open state but Success. False if it had ended already."""
        found = self._open.get(room)
        if found is None or found.state in (KVPoll.Failed, KVPoll.Success):
            return False
        found.state = KVPoll.Failed
        found.failure = failure
        self._changed[room] = None
        return True

    def joined_with(self, peer: str) -> list[Room]:
        return [room for room in self._open.values() if room.joined and room.peer == peer]

    def open_rooms(self) -> list[Room]:
        return list(self._open.values())

    def take_due(self, now_ns: int) -> list[Room]:
        """Rooms to look at now: O(due), not O(rooms). Each that stays open must be armed again."""
        return [self._open[number] for number in self.watch.pop_due(now_ns)]

    def take_changed(self) -> list[Room]:
        """Rooms whose state changed since the last call: O(changes), not O(rooms)."""
        changed = [self._open[number] for number in self._changed if number in self._open]
        self._changed.clear()
        return changed

    def close(self, room: int, now_ns: int, failure: RoomFailure | None, told: bool) -> None:
        """Forget an open room and remember how it ended."""
        found = self._open.pop(room, None)
        self._changed.pop(room, None)
        self.watch.forget(room)
        self.remember(
            TerminalRoom(
                room=room,
                peer=found.peer if found else None,
                attempt=found.attempt if found else None,
                failure=failure,
                told=told,
                at_ns=now_ns,
            )
        )

    def remember(self, end: TerminalRoom) -> None:
        """Keep an end (a tombstone, if nobody here has the room)."""
        self._terminal.pop(end.room, None)
        self._terminal[end.room] = end
        while len(self._terminal) > MAX_TERMINAL_ROOMS:
            self._terminal.popitem(last=False)

    def terminal(self, room: int) -> TerminalRoom | None:
        return self._terminal.get(room)

    def untold(self, peer: str) -> list[TerminalRoom]:
        """Failures of this peer's rooms that it has not heard of; they count as told from now on."""
        ends = [e for e in self._terminal.values() if e.peer == peer and e.failure and not e.told]
        for end in ends:
            self.remember(
                TerminalRoom(
                    room=end.room,
                    peer=end.peer,
                    attempt=end.attempt,
                    failure=end.failure,
                    told=True,
                    at_ns=end.at_ns,
                )
            )
        return ends

    def expire(self, now_ns: int) -> None:
        """Drop ends that nobody can ask about any more."""
        while self._terminal:
            oldest = next(iter(self._terminal.values()))
            if now_ns - oldest.at_ns < self._keep_ns:
                return
            self._terminal.popitem(last=False)
