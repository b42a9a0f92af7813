"""`Inbox`: what has arrived for the scheduler loop, with a peek at the aborts in it."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from itertools import islice

from engine.core.cancellation import is_abort, survivors
from engine.core.peer import Inbound
from engine.core.schedule_batch import ScheduleBatch


class Inbox:
    """The I/O thread puts, the loop drains; in between, a running forward peeks at unread aborts.

    An abort is noted before it can be drained and forgotten when it is, so the notes are exactly the
    aborts that the core has not seen. One that is older than a batch therefore never cancels it: a rid
    that is used again runs.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Inbound] = queue.SimpleQueue()
        self._aborts: deque[Inbound] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Messages that wait for the loop, about."""
        return self._queue.qsize()

    def put(self, message: Inbound) -> None:
        """Add a message; called by the I/O thread."""
        if not is_abort(message):
            self._queue.put(message)
            return
        with self._lock:
            self._aborts.append(message)
            self._queue.put(message)

    def drain(self, wait_s: float = 0.0) -> list[Inbound]:
        """Everything that is here, after at most ``wait_s`` for the first; called by the loop."""
        messages: list[Inbound] = []
        try:
            if wait_s:
                messages.append(self._queue.get(timeout=wait_s))
            while True:
                messages.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        num_aborts = sum(map(is_abort, messages))
        with self._lock:
            for _ in range(num_aborts):
                self._aborts.popleft()
        return messages

    @property
    def num_unread_aborts(self) -> int:
        return len(self._aborts)

    def unread_aborts(self, start: int = 0) -> list[Inbound]:
        """Aborts that have arrived and were not drained, from the ``start``-th on."""
        with self._lock:
            return list(islice(self._aborts, start, None))


class ForwardWatch:
    """Tells one running forward when nobody in its batch is alive any more."""

    def __init__(self, batch: ScheduleBatch, inbox: Inbox) -> None:
        self._alive = batch.members
        self._inbox = inbox
        self._num_read = 0
        self._has_deadline = any(member.deadline_ns for member in batch.members)

    def should_stop(self) -> bool:
        """Asked on the loop thread, twice a layer; each abort is looked at once a forward."""
        if self._inbox.num_unread_aborts == self._num_read and not self._has_deadline:
            return False
        news = self._inbox.unread_aborts(self._num_read)
        self._num_read += len(news)
        self._alive = survivors(self._alive, news, time.monotonic_ns())
        return not self._alive
