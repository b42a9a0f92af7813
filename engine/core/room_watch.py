"""`RoomWatch`: which open rooms are due for a look. A heap, so that a step costs what falls due in it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

SLACK = 64
LOOK_NS = 20_000
"""A look takes about 1 us; one for each 20 us that have passed is some 5 % of the loop's time at most."""
MIN_LOOKS = 16


@dataclass(slots=True)
class RoomWatch:
    """Each entry says when to look next at a room, and which life of the number is meant.

    A sign of life does not move an entry: the look finds it and arms the room anew. Many rooms that fall
    due together are looked at in slices, the longest due first.
    """

    _heap: list[tuple[int, int, int]] = field(default_factory=list)
    _current: dict[int, int] = field(default_factory=dict)
    _num_armed: int = 0
    _looked_ns: int = 0

    def __len__(self) -> int:
        return len(self._heap)

    def arm(self, room: int, at_ns: int) -> None:
        """Look at ``room`` at ``at_ns``, instead of whenever it was to be looked at."""
        if len(self._heap) > 2 * len(self._current) + SLACK:
            self._heap = [entry for entry in self._heap if self._current.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)
        self._num_armed += 1
        self._current[room] = self._num_armed
        heapq.heappush(self._heap, (at_ns, self._num_armed, room))

    def forget(self, room: int) -> None:
        """The room is closed."""
        self._current.pop(room, None)

    def pop_due(self, now_ns: int) -> list[int]:
        """Rooms to look at now; each must be armed again. As many as the time since the last call allows."""
        limit = MIN_LOOKS + (now_ns - self._looked_ns) // LOOK_NS
        self._looked_ns = now_ns
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now_ns and len(due) < limit:
            _, number, room = heapq.heappop(self._heap)
            if self._current.get(room) == number:
                due.append(room)
        return due
