"""`UrandomIdGenerator`: trace and span ids from the operating system's randomness.

The SDK's own generator uses `random`, so ``random.seed(n)`` anywhere in the process repeats trace ids.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.sdk.trace.id_generator import IdGenerator

_POOL_BYTES = 4096
_pinned: ContextVar[int | None] = ContextVar("pinned_trace_id", default=None)


class UrandomIdGenerator(IdGenerator):
    """Full 128-bit trace ids and 64-bit span ids, read from the kernel some 4 KiB at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        # A forked child must not hand out the ids that its parent will.
        os.register_at_fork(after_in_child=self._forget)

    def generate_span_id(self) -> int:
        return self._take(8)

    def generate_trace_id(self) -> int:
        pinned = _pinned.get()
        return self._take(16) if pinned is None else pinned

    def is_trace_id_random(self) -> bool:
        return _pinned.get() is None

    def _take(self, size: int) -> int:
        while True:
            with self._lock:
                if len(self._pool) < size:
                    self._pool = os.urandom(_POOL_BYTES)
                raw, self._pool = self._pool[:size], self._pool[size:]
            if number := int.from_bytes(raw, "big"):  # zero is "no id"
                return number

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""


@contextmanager
def pinned_trace_id(trace_id: int) -> Iterator[None]:
    """Within the block, root spans get this trace id instead of a random one."""
    token = _pinned.set(trace_id)
    try:
        yield
    finally:
        _pinned.reset(token)
