"""Healing that Ctrl-C does not cut in half."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_WAITING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_wait() -> Iterator[None]:
    """SIGINT and SIGTERM that come inside are delivered when the block ends. They reach the main thread
    alone, so elsewhere there is nothing to do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, remember) for number in _WAITING}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: somebody outside of Python installed it, and Python cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for sent in dict.fromkeys(came):
            signal.raise_signal(sent)
