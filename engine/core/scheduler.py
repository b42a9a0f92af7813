"""`Scheduler`: what all three roles share. Receive, mark aborts, abort at the safe point, release, answer.

The loop around it (`engine.server.scheduler_process`) reads: recv -> get_next_batch_to_run -> forward ->
recv -> process_batch_result. An abort only marks its request; the first statement of
`get_next_batch_to_run` is the safe point, the one place where state is released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from engine.core.batch import Cancelled, ForwardResult
from engine.core.cancellation import names
from engine.core.codes import AbortOrigin, AbortReason, AbortVia, DisaggregationMode, Stage
from engine.core.config import SchedulerConfig
from engine.core.control import answer_control
from engine.core.deadlines import Deadlines
from engine.core.io_struct import (
    AbortReq,
    ControlReq,
    FinishReason,
    TokenizedGenerateReqInput,
    TokenLogprob,
    TokenOut,
)
from engine.core.ledger import LedgerView
from engine.core.peer import Effect, Emit, Inbound
from engine.core.polling import no_poll_failures
from engine.core.pools import Pools
from engine.core.req import AbortMark, Req, ReqKey, ReqTimeStats, prepare_abort
from engine.core.req_queue import ReqQueue
from engine.core.rid_index import RidIndex
from engine.core.rooms import RoomTable
from engine.core.schedule_batch import BatchMember, ScheduleBatch


class Scheduler(ABC):
    """State and rules of every role; the subclasses add their queues."""

    role: DisaggregationMode

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.pools = Pools(config)
        self.rooms = RoomTable(config.terminal_keep_ns, config.first_look_ns)
        self.deadlines = Deadlines(config)
        self.reqs: dict[ReqKey, Req] = {}
        self.waiting_queue = ReqQueue()
        self.running: list[Req] = []
        self.chunked_req: Req | None = None
        self.to_run_again = ReqQueue()
        self.poll_failures = no_poll_failures()
        self.paused = False
        self.step = 0
        self.num_cancelled_forwards = 0
        self._pending_chunked_abort_req: Req | None = None
        self._pending_aborts: list[Req] = []
        self._held_back = ReqQueue()
        self._by_rid = RidIndex()
        self._effects: list[Effect] = []

    # ---- receive ----------------------------------------------------------------------------

    def recv(self, inbox: Iterable[Inbound], now_ns: int) -> None:
        """Take in everything that has arrived. Aborts only mark; nothing is released here."""
        for message in inbox:
            self._dispatch(message, now_ns)

    def _dispatch(self, message: Inbound, now_ns: int) -> None:
        match message:
            case TokenizedGenerateReqInput():
                self._add_request(message, now_ns)
            case AbortReq():
                self.abort_request(message, now_ns)
            case ControlReq():
                self._control(message, now_ns)
            case _:
                self._on_link(message, now_ns)

    @abstractmethod
    def _on_link(self, message: Inbound, now_ns: int) -> None:
        """Take in news of peers."""

    def _control(self, message: ControlReq, now_ns: int) -> None:
        self.paused = {"pause": True, "continue": False}.get(message.op, self.paused)
        self.emit(Emit(message=answer_control(message, self)))

    def _add_request(self, recv: TokenizedGenerateReqInput, now_ns: int) -> None:
        req = Req(recv=recv, time_stats=ReqTimeStats(received_ns=recv.received_ns))
        self.deadlines.arrived(req)
        self._by_rid.add(req)
        if req.key in self.reqs:
            self._held_back.append(req)  # results and answers go by key: the older one ends first
        else:
            self._take_in(req, now_ns)

    def _take_in(self, req: Req, now_ns: int) -> None:
        limit = self.config.max_queued_requests
        is_full = bool(limit) and self.num_queued() >= limit
        self.reqs[req.key] = req
        if is_full:
            text = f"The request queue is full ({limit}). Try again later."
            self.mark(req, AbortReason.QUEUE_FULL, AbortOrigin.SERVER, text, now_ns)
            return
        if self.num_pages_needed(req) > self.config.num_pages:
            pool_tokens = self.config.num_pages * self.config.page_size
            text = f"Prompt and max_new_tokens need more than the KV pool's {pool_tokens} tokens."
            self.mark(req, AbortReason.INPUT_TOO_LONG, AbortOrigin.SERVER, text, now_ns)
            return
        self._enqueue(req, now_ns)

    @abstractmethod
    def num_pages_needed(self, req: Req) -> int:
        """Pages that this role must hold for ``req`` at once."""

    @abstractmethod
    def num_queued(self) -> int:
        """Requests that have not begun to compute."""

    @abstractmethod
    def _enqueue(self, req: Req, now_ns: int) -> None:
        """Put a new request into the role's first queue."""

    # ---- abort: mark now, release at the safe point --------------------------------------------

    def abort_request(self, recv: AbortReq, now_ns: int) -> int:
        """Mark every match (exact rid unless ``prefix``); returns how many were marked first by this."""
        return sum(
            self.mark(req, recv.reason, recv.origin, recv.message, recv.received_ns)
            for req in self._by_rid.candidates(recv)
            if names(recv, req.rid, req.room)
        )

    def mark(
        self,
        req: Req,
        reason: AbortReason,
        origin: AbortOrigin,
        message: str,
        received_ns: int,
        via: AbortVia = AbortVia.LOCAL,
    ) -> bool:
        """Note an abort; True if it is the request's first."""
        marked = req.mark_abort(
            AbortMark(
                reason=reason,
                origin=origin,
                via=via,
                stage=req.stage,
                message=message,
                received_ns=received_ns,
            )
        )
        if marked and req is self.chunked_req:
            self._pending_chunked_abort_req = req
        elif marked:
            self._pending_aborts.append(req)
        return marked

    def safe_point(self, now_ns: int) -> None:
        """First statement of every scheduling step, also while paused."""
        self._mark_overdue(now_ns)
        self.process_pending_chunked_abort(now_ns)
        self.process_pending_aborts(now_ns)
        self._take_in_held_back(now_ns)

    def _take_in_held_back(self, now_ns: int) -> None:
        if not self._held_back:
            return
        for req in [held for held in self._held_back if held.key not in self.reqs]:
            if req.key not in self.reqs:  # of two that waited for one key, the first
                self._held_back.discard(req)
                self._take_in(req, now_ns)

    def _mark_overdue(self, now_ns: int) -> None:
        for due in self.deadlines.pop_due(now_ns):
            self.mark(due.req, AbortReason.DEADLINE, due.kind.origin, due.message, now_ns)

    def process_pending_chunked_abort(self, now_ns: int) -> None:
        """Abort the marked chunked request; if it has left the chunk slot, the abort follows it."""
        req, self._pending_chunked_abort_req = self._pending_chunked_abort_req, None
        if req is not None and not req.finished():
            self._abort(req, now_ns)

    def process_pending_aborts(self, now_ns: int) -> None:
        """Abort every other marked request, wherever it is by now."""
        marked, self._pending_aborts = self._pending_aborts, []
        for req in marked:
            if not req.finished():
                self._abort(req, now_ns)

    def _abort(self, req: Req, now_ns: int) -> None:
        """Release one request, in SGLang's order."""
        info = prepare_abort(req, now_ns)
        trace_ctx = req.time_stats.trace_ctx
        trace_ctx.num_wasted_prefill_tokens, trace_ctx.num_wasted_decode_tokens = self._wasted(req)
        trace_ctx.abort(info, now_ns)
        self._abort_sender(req, now_ns)
        self.pools.maybe_release_metadata_buffer(req)
        num_pages = self.release_kv_cache(req)
        trace_ctx.abort_child("kv.release", now_ns, **{"pd.pages": num_pages})
        self._clear_slot(req)
        self.tell_tokenizer(req, now_ns)

    @abstractmethod
    def _abort_sender(self, req: Req, now_ns: int) -> None:
        """Give up the transfer and tell the peer."""

    def _wasted(self, req: Req) -> tuple[int, int]:
        """Prompt tokens computed and output tokens made for a request that ends here."""
        return min(req.num_cached_tokens, req.num_input_tokens), len(req.output)

    def release_kv_cache(self, req: Req) -> int:
        """Free the request's pages and slot; returns the pages freed."""
        return self.pools.release_kv_cache(req)

    def _clear_slot(self, req: Req) -> None:
        """Take the request out of every place that could schedule it again."""
        if self.chunked_req is req:
            self.chunked_req = None
        if req.stage is Stage.RUNNING:
            self.running = [other for other in self.running if other is not req]
        for queue in (self.waiting_queue, self.to_run_again, self._held_back):
            queue.discard(req)

    # ---- schedule and emit ---------------------------------------------------------------------

    def next_waiting(self) -> Req | None:
        """Who computes next, as soon as it fits."""
        return self.waiting_queue.head

    def can_admit(self, req: Req) -> bool:
        """Has the head of the queue its memory, or could have it?"""
        return bool(req.page_ids) or self.pools.can_admit(self.num_pages_needed(req))

    def start(self, req: Req, now_ns: int) -> None:
        """Take the head of the queue out, with its memory."""
        self.waiting_queue.discard(req)
        if not req.page_ids:
            self.pools.admit(req, self.num_pages_needed(req))
        if not req.started_ns:
            self.deadlines.started(req, now_ns)
        req.time_stats.trace_ctx.end("queue", now_ns)

    @abstractmethod
    def get_next_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
        """The safe point, then the next forward, if there is one."""

    def process_batch_result(
        self, batch: ScheduleBatch, result: ForwardResult, now_ns: int
    ) -> None:
        """Take a forward's result in; what arrives for an aborted request is drained."""
        if isinstance(result, Cancelled):
            self._put_back(batch, now_ns)
        else:
            self._process_tokens(batch, result, now_ns)

    @abstractmethod
    def _process_tokens(
        self, batch: ScheduleBatch, result: Sequence[TokenLogprob | None], now_ns: int
    ) -> None: ...

    def _put_back(self, batch: ScheduleBatch, now_ns: int) -> None:
        """A cancelled forward is no progress: who has left a queue for it can run again.

        Running requests and the chunked one are still where they were; only a last chunk has left.
        """
        self.num_cancelled_forwards += 1
        for key in batch.keys:
            req = self.reqs.get(key)
            if req is None or req.stage is Stage.RUNNING:
                continue
            req.time_stats.trace_ctx.end("prefill.chunk", now_ns, **{"pd.cancelled": True})
            if req.stage is Stage.LAST_CHUNK:
                self.to_run_again.append(req)

    def member(self, req: Req) -> BatchMember:
        """``req`` as a part of a batch."""
        return BatchMember(rid=req.rid, room=req.room, deadline_ns=self.deadlines.nearest_ns(req))

    def tell_tokenizer(self, req: Req, now_ns: int, tokens: tuple[TokenLogprob, ...] = ()) -> None:
        """Pass tokens on; with a finish, the request's one and last answer."""
        finish = req.finished_reason
        trace = req.time_stats.trace_ctx.record(now_ns) if finish else None
        if finish:
            self._by_rid.discard(req)
            if self.reqs.get(req.key) is req:
                del self.reqs[req.key]
        out = TokenOut(
            rid=req.rid, bootstrap_room=req.room, tokens=tokens, finish=finish, trace=trace
        )
        self.emit(Emit(message=out))

    def finish(self, req: Req, now_ns: int, reason: FinishReason, last: TokenLogprob) -> None:
        """A normal end: release, then answer."""
        req.finished_reason = reason
        self.pools.maybe_release_metadata_buffer(req)
        self.release_kv_cache(req)
        self._clear_slot(req)
        self.tell_tokenizer(req, now_ns, (last,))

    def append_token(self, req: Req, token: TokenLogprob, now_ns: int) -> None:
        """One more output token: stream it, and finish the request if it was the last."""
        req.output.append(token)
        params = req.recv.sampling_params
        if token.token_id == self.config.eos_token_id and not params.ignore_eos:
            self.finish(req, now_ns, FinishReason(type="stop", matched=token.token_id), token)
        elif len(req.output) >= params.max_new_tokens:
            self.finish(req, now_ns, FinishReason(type="length", length=len(req.output)), token)
        else:
            self.tell_tokenizer(req, now_ns, (token,))

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """Everything to be done outside, in order; the loop does it before the next forward."""
        effects, self._effects = self._effects, []
        return effects

    @property
    def num_chunked(self) -> int:
        """Requests between two chunks, or whose last chunk must run again."""
        return int(self.chunked_req is not None) + len(self.to_run_again)

    # ---- look ------------------------------------------------------------------------------------

    @abstractmethod
    def queues(self) -> dict[str, int]:
        """Length of every queue, by name."""

    def is_idle(self) -> bool:
        return not self.reqs and not self._held_back

    def _conservation_at_idle(self) -> list[str]:
        """SGLang's on_idle check, over all resources: shown by the ledger view, never a crash."""
        broken = self.pools.full_scan()
        left = [h for h in self.pools.ledger.holders() if h.resource != "staging_pages"]
        return broken + [f"idle, but {h.owner} holds {h.count} {h.resource}" for h in left]

    def ledger_view(self) -> LedgerView:
        broken = self._conservation_at_idle() if self.is_idle() else self.pools.conservation()
        return LedgerView(
            role=str(self.role),
            incarnation=self.config.incarnation,
            step=self.step,
            idle=self.is_idle(),
            resources=self.pools.counts(),
            holders=self.pools.ledger.holders(),
            rooms_open=len(self.rooms),
            rooms_terminal=self.rooms.num_terminal,
            requests=len(self.reqs),
            queues=self.queues(),
            conservation=tuple(broken),
            double_frees=self.pools.ledger.num_double_frees,
            poll_failures_injected=self.poll_failures.num_fired,
        )
