"""`Pools`: everything that a request can hold, with the laws that must always stand."""

from __future__ import annotations

from engine.core.allocator import Allocator
from engine.core.config import SchedulerConfig
from engine.core.ledger import Resource, ResourceCount, ResourceLedger
from engine.core.req import Req
from engine.core.shared_allocator import SharedAllocator


class Pools:
    """KV pages, request slots, metadata slots and staging space of one worker."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.ledger = ResourceLedger()
        self.kv_pages = Allocator(Resource.KV_PAGES, config.num_pages, self.ledger)
        self.req_slots = Allocator(Resource.REQ_SLOTS, config.max_running_requests, self.ledger)
        self.metadata_slots = SharedAllocator(
            Resource.METADATA_SLOTS, config.num_metadata_slots, self.ledger
        )
        self.staging = SharedAllocator(
            Resource.STAGING_PAGES, config.num_staging_pages, self.ledger
        )

    @property
    def _all(self) -> tuple[Allocator, ...]:
        return (self.kv_pages, self.req_slots, self.metadata_slots, self.staging)

    def can_admit(self, num_pages: int) -> bool:
        """Are a request slot and ``num_pages`` pages free?"""
        return self.req_slots.can_allocate(1) and self.kv_pages.can_allocate(num_pages)

    def admit(self, req: Req, num_pages: int) -> None:
        """Give ``req`` its slot and all its pages at once."""
        (req.req_slot,) = self.req_slots.allocate(req.owner, 1)
        req.page_ids = self.kv_pages.allocate(req.owner, num_pages)

    def release_kv_cache(self, req: Req) -> int:
        """Free pages and request slot (SGLang `release_kv_cache`); returns the pages freed."""
        pages, req.page_ids = req.page_ids, ()
        if pages:
            self.kv_pages.free(req.owner, pages)
        if req.req_slot is not None:
            self.req_slots.free(req.owner, (req.req_slot,))
            req.req_slot = None
        return len(pages)

    def maybe_release_metadata_buffer(self, req: Req) -> None:
        """Free the metadata slot if there is one (SGLang has this name)."""
        if req.metadata_slot is not None:
            self.metadata_slots.free(req.owner, (req.metadata_slot,))
            req.metadata_slot = None

    def counts(self) -> dict[str, ResourceCount]:
        return {str(pool.resource): pool.count() for pool in self._all}

    def conservation(self) -> list[str]:
        """Broken laws, O(1), together with what the ledger has caught so far."""
        return [text for pool in self._all for text in pool.conservation()] + self.ledger.violations

    def full_scan(self) -> list[str]:
        """Broken laws, O(everything); for idle moments and tests."""
        return self.conservation() + [text for pool in self._all for text in pool.full_scan()]
