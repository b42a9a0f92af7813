"""A free list of numbered units (KV pages, slots), paired with the ledger."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.errors import OutOfResource
from engine.core.ledger import Resource, ResourceCount, ResourceLedger


class Allocator:
    """Units 0..total-1. The last freed is the first given out, so that a stale reader is seen soon."""

    def __init__(self, resource: Resource, total: int, ledger: ResourceLedger) -> None:
        self.resource = resource
        self.total = total
        self._ledger = ledger
        self._free = list(range(total - 1, -1, -1))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def can_allocate(self, count: int) -> bool:
        return count <= len(self._free)

    def allocate(self, owner: str, count: int) -> tuple[int, ...]:
        """Take ``count`` units for ``owner``. Raises OutOfResource if fewer are free."""
        if not self.can_allocate(count):
            raise OutOfResource(f"{count} {self.resource} for {owner}: only {self.num_free} free")
        units = tuple(self._free.pop() for _ in range(count))
        self._ledger.acquire(self.resource, owner, units)
        return units

    def free(self, owner: str, units: Iterable[int]) -> None:
        """Give units back. Those that ``owner`` does not hold are noted as a double free and left alone."""
        self._take_back(self._ledger.release(self.resource, owner, units))

    def _take_back(self, units: Iterable[int]) -> None:
        self._free.extend(units)

    def count(self) -> ResourceCount:
        held = self._ledger.num_held(self.resource)
        return ResourceCount(total=self.total, free=self.num_free, held=held)

    def conservation(self) -> list[str]:
        """Broken laws, O(1): free + held == total."""
        now = self.count()
        if now.free + now.held == now.total:
            return []
        return [f"{self.resource}: free {now.free} + held {now.held} != total {now.total}"]

    def full_scan(self) -> list[str]:
        """Broken laws, O(total): every unit is free once, or held, and never both."""
        broken = []
        if len(set(self._free)) != len(self._free):
            broken.append(f"{self.resource}: a unit stands twice in the free list")
        both = [unit for unit in self._free if self._ledger.is_held(self.resource, unit)]
        if both:
            broken.append(f"{self.resource}: units {both[:8]} are free and held")
        return broken
