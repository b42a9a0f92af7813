"""One brake for a whole run: guards and signals pull it, every wait of the runner feels it at once.

A pipe and not a `threading.Event`: a signal handler runs in the main thread between two instructions,
and an Event's lock may be held there already (by the very wait that should end).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from chaos.errors import Halted, Interrupted, Stopped


class Brake:
    """Pulled once, stays pulled; the first reason counts."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._stop: Stopped | None = None
        self.breached_at: float | None = None
        """When what a guard saw began to be too much, ``time.monotonic()``; None: no guard tripped."""
        self.pulled_at: float | None = None
        """When the decision to stop fell."""

    @property
    def pulled(self) -> bool:
        return self._stop is not None

    def halt(self, reason: str, breached_at: float | None = None) -> None:
        """A guard tripped."""
        if self._stop is None:
            self.breached_at = breached_at
        self._pull(Halted(reason))

    def interrupt(self, reason: str) -> None:
        """The user wants to stop. Safe in a signal handler."""
        self._pull(Interrupted(reason))

    def check(self) -> None:
        """Raise `Stopped` if it was pulled."""
        if self._stop is not None:
            raise self._stop

    def sleep(self, seconds: float) -> None:
        """Sleep; a pull ends it at once by raising `Stopped`."""
        self.check()
        select.select([self._read], [], [], max(0.0, seconds))
        self.check()

    def sleep_until(self, at: float) -> None:
        """Sleep until ``time.monotonic()`` is ``at``."""
        self.sleep(at - time.monotonic())

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.05
    ) -> bool:
        """Poll until ``condition`` holds; False after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() >= deadline:
                return False
            self.sleep(poll_s)
        return True

    def pulled_within(self, seconds: float, unless: int) -> bool | None:
        """For another thread: True when it is pulled, False when the time is over, None when the file
        descriptor ``unless`` became readable first."""
        ready, _, _ = select.select([self._read, unless], [], [], max(0.0, seconds))
        if unless in ready:
            return None
        return self._read in ready

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def _pull(self, stop: Stopped) -> None:
        if self._stop is None:
            self.pulled_at = time.monotonic()
            self._stop = stop
            os.write(self._write, b"!")


@contextmanager
def signals_pull(brake: Brake, tell: Callable[[str], None]) -> Iterator[None]:
    """SIGINT and SIGTERM pull ``brake``; a second one is told to wait, since healing is never skipped."""

    def handle(number: int, _: FrameType | None) -> None:
        if brake.pulled:
            tell("already stopping: healing and ending every process first")
        else:
            brake.interrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
