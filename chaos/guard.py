"""The shape of a guard, and of its verdict that the run must end."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """Why a guard wants the run to end. ``breached_at``: when it began to be too much, as far as is known
    (``time.monotonic()``)."""

    guard: str
    value: float
    limit: float
    detail: str
    breached_at: float | None = None


class Guard(Protocol):
    def check(self) -> Trip | None: ...
