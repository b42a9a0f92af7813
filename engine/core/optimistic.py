"""`OptimisticPrefill`: who computes, or has computed, before its decode half is ready.

    candidates -> computing (-> set aside -> computing) -> parked -> its room is ready: sent
        ^                        |                           |
        +------- retracted <-----+---------------------------+   a bootstrapped request needs the memory

``--optimistic-prefill-attempts`` counts as in SGLang how often a request may begin to compute on trust;
after that it waits for its bootstrap like anybody else. Other than there, a request that yields keeps its
pages until somebody needs them, and all of them together hold a bounded share of the pool, so that requests
whose decode half never comes cannot hold up those whose half is there.
"""

from __future__ import annotations

from engine.core.codes import Stage
from engine.core.config import SchedulerConfig
from engine.core.pools import Pools
from engine.core.req import Req
from engine.core.req_queue import ReqQueue


class OptimisticPrefill:
    """``candidates`` hold nothing. ``set_aside`` (between two chunks) and ``parked`` (after the last) hold
    pages and a request slot, as do those that compute at the moment.
    """

    def __init__(self, config: SchedulerConfig, pools: Pools) -> None:
        self._config = config
        self._pools = pools
        self.candidates = ReqQueue()
        self.set_aside = ReqQueue()
        self.parked = ReqQueue()
        self.num_retracted = 0
        self._held: dict[Req, int] = {}

    @property
    def num_idle(self) -> int:
        """Requests that hold memory and do not compute."""
        return len(self.set_aside) + len(self.parked)

    @property
    def idle(self) -> list[Req]:
        """Who holds memory and does not compute, youngest first: the order of giving it up."""
        return [req for req in reversed(self._held) if req in self.set_aside or req in self.parked]

    @property
    def head(self) -> Req | None:
        """Who goes on, or else who begins."""
        return self.set_aside.head or self.candidates.head

    def add_candidate(self, req: Req, num_pages: int) -> None:
        """Let ``req`` compute on trust, if it has an attempt left and can ever fit."""
        has_attempt = req.num_prefill_attempts < self._config.optimistic_prefill_attempts
        if not has_attempt or num_pages > self._config.max_optimistic_pages:
            return
        if req.num_prefill_attempts:
            self.candidates.push_front(req)  # a retracted one is older than the others
        else:
            self.candidates.append(req)

    def can_hold(self, num_pages: int) -> bool:
        """Would one more stay within the bounds?"""
        has_slot = len(self._held) < self._config.max_optimistic_requests
        return (
            has_slot and sum(self._held.values()) + num_pages <= self._config.max_optimistic_pages
        )

    def take(self, req: Req) -> None:
        """``req`` computes from now on, in the pages that it has."""
        self.candidates.discard(req)
        self.set_aside.discard(req)
        if req not in self._held:
            req.num_prefill_attempts += 1
            req.pending_bootstrap = True
            self._held[req] = len(req.page_ids)

    def put_aside(self, req: Req, now_ns: int) -> None:
        """Between two chunks it waits for its turn; what it has computed stays."""
        self.set_aside.append(req)
        req.stage = Stage.WAITING
        req.time_stats.trace_ctx.begin("queue", now_ns)

    def park(self, req: Req) -> None:
        """All is computed, and nobody is there to take it."""
        self.parked.append(req)
        req.stage = Stage.WAITING

    def could_make_room(self, num_pages: int, computing: ReqQueue) -> bool:
        """Would a request slot and ``num_pages`` be free, if all but ``computing`` were retracted?"""
        yielding = [pages for req, pages in self._held.items() if req not in computing]
        slots = self._pools.req_slots.num_free + len(yielding)
        return slots > 0 and self._pools.kv_pages.num_free + sum(yielding) >= num_pages

    def retract(self, req: Req, now_ns: int) -> None:
        """Release what ``req`` holds and forget what it has computed."""
        self.leave(req)
        self.num_retracted += 1
        self._pools.release_kv_cache(req)
        req.reset_for_retract()
        req.stage = Stage.BOOTSTRAP
        req.time_stats.trace_ctx.end("queue", now_ns)

    def leave(self, req: Req) -> None:
        """``req`` is bootstrapped, ended or retracted."""
        for queue in (self.candidates, self.set_aside, self.parked):
            queue.discard(req)
        self._held.pop(req, None)
        req.pending_bootstrap = False
