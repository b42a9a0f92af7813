"""`SharedAllocator`: a pool that all peers of a worker take from, none of them at the others' cost.

    |  guaranteed: half of the pool, in equal parts  |  common: who has used up its part takes from here  |

From the common half a peer may hold at most as much as it leaves free. So a peer that gives nothing back
(its link is cut) never takes what another one needs to go on, and one that is alone has three quarters.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.allocator import Allocator
from engine.core.ledger import Resource, ResourceLedger


class SharedAllocator(Allocator):
    """Units taken in the name of a peer count against its share until they are free again."""

    def __init__(self, resource: Resource, total: int, ledger: ResourceLedger) -> None:
        super().__init__(resource, total, ledger)
        self._peer_of: dict[int, str] = {}
        self._held_by: dict[str, int] = {}

    def num_held_by(self, peer: str) -> int:
        return self._held_by.get(peer, 0)

    def num_free_for(self, peer: str, num_peers: int) -> int:
        """Units that ``peer`` may take now, where ``num_peers`` share the pool."""
        part = max(self.total // (2 * num_peers), int(self.total >= num_peers))
        held = self.num_held_by(peer)
        reserved = part * num_peers - sum(min(part, count) for count in self._held_by.values())
        common = self.num_free - max(0, reserved)
        own, over = max(0, part - held), max(0, held - part)
        share = own + max(0, (common - over) // 2)
        return min(self.num_free, share if held else max(share, 1))

    def allocate_for(self, peer: str, owner: str, count: int) -> tuple[int, ...]:
        """Take ``count`` units for ``owner`` in the name of ``peer``. Raises OutOfResource."""
        units = self.allocate(owner, count)
        for unit in units:
            self._peer_of[unit] = peer
        self._held_by[peer] = self.num_held_by(peer) + count
        return units

    def _take_back(self, units: Iterable[int]) -> None:
        given = list(units)
        super()._take_back(given)
        for unit in given:
            peer = self._peer_of.pop(unit, None)
            if peer is None:
                continue
            self._held_by[peer] -= 1
            if not self._held_by[peer]:
                del self._held_by[peer]
