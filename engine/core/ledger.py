"""`ResourceLedger`: every acquire and release with its owner, beside the allocators' own free lists.

A leak has a name (who holds it) and a double free is caught at the second free. The ledger and the
allocators count apart, so that `conservation` can compare two independent sums (SGLang's
`SchedulerInvariantChecker` compares only one).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Resource(StrEnum):
    KV_PAGES = "kv_pages"
    REQ_SLOTS = "req_slots"
    METADATA_SLOTS = "metadata_slots"
    STAGING_PAGES = "staging_pages"


class ResourceCount(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    free: int
    held: int


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    resource: str
    owner: str
    count: int


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /ledger`` shows; the HTTP side adds ``worker`` and ``rid_to_state``."""

    role: str
    incarnation: str
    step: int
    idle: bool
    resources: dict[str, ResourceCount]
    holders: tuple[Holder, ...]
    rooms_open: int
    rooms_terminal: int
    requests: int
    queues: dict[str, int]
    conservation: tuple[str, ...]
    double_frees: int
    poll_failures_injected: int = 0


class ResourceLedger:
    """Who holds which unit of which resource."""

    def __init__(self) -> None:
        self._owner_of: dict[Resource, dict[int, str]] = {kind: {} for kind in Resource}
        self.num_double_frees = 0
        self.violations: list[str] = []

    def acquire(self, resource: Resource, owner: str, units: Iterable[int]) -> None:
        """Note ``units`` as held by ``owner``; a unit that somebody holds already is a violation."""
        owners = self._owner_of[resource]
        for unit in units:
            if unit in owners:
                self._violate(f"{resource} {unit} given to {owner} while {owners[unit]} holds it")
            owners[unit] = owner

    def release(self, resource: Resource, owner: str, units: Iterable[int]) -> list[int]:
        """Forget ``units``; returns those that ``owner`` really held, the only ones to free."""
        owners = self._owner_of[resource]
        released = []
        for unit in units:
            if owners.get(unit) == owner:
                del owners[unit]
                released.append(unit)
            else:
                self.num_double_frees += 1
                self._violate(f"{owner} freed {resource} {unit}, held by {owners.get(unit)}")
        return released

    def num_held(self, resource: Resource) -> int:
        return len(self._owner_of[resource])

    def is_held(self, resource: Resource, unit: int) -> bool:
        return unit in self._owner_of[resource]

    def owners(self) -> set[str]:
        """Everybody who holds anything."""
        return {owner for owners in self._owner_of.values() for owner in owners.values()}

    def holders(self) -> tuple[Holder, ...]:
        """Counts by resource and owner, largest first."""
        return tuple(
            Holder(resource=resource, owner=owner, count=count)
            for resource, owners in self._owner_of.items()
            for owner, count in Counter(owners.values()).most_common()
        )

    def _violate(self, text: str) -> None:
        if len(self.violations) < 100:
            self.violations.append(text)
