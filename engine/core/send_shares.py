"""`SendShares`: what each decode holds of a prefill's memory, and for how long it has taken nothing.

Two things of a prefill are shared by all its decodes: the staging space of pages that are on their way, and
the KV pages of requests that compute or wait for staging space. A decode that takes nothing (its kv link is
cut) must not end up with all of either.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.req import Req, ReqKey
from engine.core.shared_allocator import SharedAllocator


@dataclass(slots=True, frozen=True)
class _Holder:
    req: Req
    peer: str | None
    num_pages: int


class SendShares:
    """``num_peers``: decodes that are up and share the staging space."""

    def __init__(self, staging: SharedAllocator) -> None:
        self._staging = staging
        self._with_pages: dict[ReqKey, _Holder] = {}
        self._progress_ns: dict[str, int] = {}
        self.num_peers = 1

    def admitted(self, req: Req, peer: str | None, num_pages: int) -> None:
        """``req`` holds KV pages from now on, all of which will go to ``peer``."""
        self._with_pages[req.key] = _Holder(req, peer, num_pages)

    def released(self, req: Req) -> None:
        self._with_pages.pop(req.key, None)

    def can_send(self, peer: str, num_pages: int) -> bool:
        """Will the peer's share take so many pages more, after those that compute for it?

        Who computes for a peer that takes nothing ends up with pages that nobody can use. A request that
        needs more than the share goes when it has the share for itself.
        """
        unsent = sum(
            holder.num_pages - holder.req.num_sent_pages
            for holder in self._with_pages.values()
            if holder.peer == peer
        )
        if not unsent and not self._staging.num_held_by(peer):
            return True
        return unsent + num_pages <= self.num_free_for(peer)

    def num_free_for(self, peer: str) -> int:
        """Staging pages that may go to ``peer`` now."""
        return self._staging.num_free_for(peer, self.num_peers)

    def stage(self, peer: str, owner: str, num_pages: int, now_ns: int) -> tuple[int, ...]:
        """Staging space for pages that go to ``peer``."""
        if not self._staging.num_held_by(peer):
            self._progress_ns[peer] = now_ns
        return self._staging.allocate_for(peer, owner, num_pages)

    def took(self, peer: str, now_ns: int) -> None:
        """``peer`` has acknowledged pages."""
        self._progress_ns[peer] = now_ns

    def forget(self, peer: str) -> None:
        self._progress_ns.pop(peer, None)

    def stuck_ns(self, peer: str | None, now_ns: int) -> int:
        """How long a peer has taken none of the pages that are on their way to it."""
        if peer is None or not self._staging.num_held_by(peer):
            return 0
        return now_ns - self._progress_ns.get(peer, now_ns)
