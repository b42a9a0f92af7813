"""`VirtualClock`: time that moves only from one event to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable

MS_NS = 1_000_000
START_NS = 1_000_000_000
"""Virtual time begins at one second, so that 0 stays "never"."""


class VirtualClock:
    """Events in order of time, and of their making where times are equal."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.num_events = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._made = 0

    def at(self, when_ns: int, what: Callable[..., None], *args: object) -> None:
        """Call ``what(*args)`` then; a time that has passed means now."""
        self._made += 1
        heapq.heappush(self._heap, (max(when_ns, self.now_ns), self._made, what, args))

    def after(self, delay_ns: int, what: Callable[..., None], *args: object) -> None:
        self._made += 1
        heapq.heappush(self._heap, (self.now_ns + delay_ns, self._made, what, args))

    def run_until(self, end_ns: int, max_events: int) -> bool:
        """Run every event before ``end_ns``; False if there were more than ``max_events``."""
        heap, pop = self._heap, heapq.heappop
        last = self.num_events + max_events
        while heap and heap[0][0] < end_ns:
            self.now_ns, _, what, args = pop(heap)
            self.num_events += 1
            what(*args)
            if self.num_events > last:
                return False
        self.now_ns = max(self.now_ns, end_ns)
        return True
