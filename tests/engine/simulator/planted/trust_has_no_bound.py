"""Requests on trust may hold the whole pool, and are never asked to yield."""

from __future__ import annotations

from engine.core.optimistic import OptimisticPrefill
from engine.core.prefill import PrefillScheduler
from tests.engine.simulator.planted.patch import Patch


def can_hold(self: OptimisticPrefill, num_pages: int) -> bool:
    return True


def yield_to_bootstrapped(self: PrefillScheduler, now_ns: int) -> None:
    """Stay."""


PATCHES: tuple[Patch, ...] = (
    (OptimisticPrefill, "can_hold", can_hold),
    (PrefillScheduler, "yield_to_bootstrapped", yield_to_bootstrapped),
)
