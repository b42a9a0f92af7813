"""`LogSink`: where log lines go without anybody waiting for them.

A full disk, a closed pipe or a reader that has stopped must not stop a worker: a log call in the
scheduler's loop or in the HTTP side's event loop would stand still with it, and its peers would call it
dead. So lines are queued, up to a bound, and one thread writes them; what cannot be written is lost and
counted.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from functools import cache

MAX_QUEUED_BYTES = 1 << 20
DRAIN_S = 0.5
STDERR_FD = 2


class LogSink:
    """A stream for `logging`, over the file descriptor ``fd``. Safe from any thread; never raises."""

    def __init__(self, fd: int, max_queued_bytes: int = MAX_QUEUED_BYTES) -> None:
        self._fd = fd
        self._max_queued_bytes = max_queued_bytes
        self._queued: deque[bytes] = deque()
        self._num_bytes = 0
        self._num_lost = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._write_forever, name="log", daemon=True).start()

    @property
    def num_lost(self) -> int:
        """Writes that nobody will read, since the last one that got through."""
        return self._num_lost

    def write(self, text: str) -> int:
        self.write_bytes(text.encode(errors="backslashreplace"))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Queue ``data``, or drop it if the writer is too far behind."""
        with self._changed:
            if self._num_bytes + len(data) > self._max_queued_bytes:
                self._num_lost += 1
                return
            self._queued.append(data)
            self._num_bytes += len(data)
            self._changed.notify_all()

    def flush(self) -> None:
        """Nothing: `logging` calls it after each line, and nobody waits here. See `drain`."""

    def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Wait until everything is written, ``timeout_s`` at most."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._num_bytes and (left_s := deadline - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _write_forever(self) -> None:
        while True:
            with self._changed:
                while not self._queued:
                    self._changed.wait()
                data = self._queued.popleft()
            self._write(data)
            with self._changed:
                self._num_bytes -= len(data)
                self._changed.notify_all()

    def _write(self, data: bytes) -> None:
        """The gap is named before the first line that gets through again."""
        lost = self._num_lost
        notice = f"({lost} log writes were lost here)\n".encode() if lost else b""
        left = memoryview(notice + data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with self._changed:
                self._num_lost += 1
            return
        with self._changed:
            self._num_lost -= lost


@cache
def stderr_sink() -> LogSink:
    """The one sink of this process; what it holds at exit is written if it can be written at once."""
    sink = LogSink(STDERR_FD)
    atexit.register(sink.drain)
    return sink
