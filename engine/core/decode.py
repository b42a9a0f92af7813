"""`DecodeScheduler`: the decode half of a pair.

    bootstrap -> JOIN -> prealloc queue -> METADATA -> transfer queue -> COMMITTED -> running

Pages for prompt + max_new_tokens are reserved before METADATA, so a running request never retracts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from engine.core.chunking import decode_item
from engine.core.codes import (
    AbortOrigin,
    AbortReason,
    AbortVia,
    DisaggregationMode,
    KVPoll,
    Stage,
)
from engine.core.config import SchedulerConfig
from engine.core.disagg import DisaggScheduler
from engine.core.errors import InvariantError
from engine.core.io_struct import TokenLogprob
from engine.core.peer import (
    Attempt,
    Committed,
    Connect,
    Join,
    KvArrived,
    KvPages,
    KvSettled,
    KvTaken,
    Metadata,
    PeerUp,
    Scatter,
    Tell,
)
from engine.core.req import Req
from engine.core.req_queue import ReqQueue
from engine.core.rooms import Room, RoomFailure, TerminalRoom
from engine.core.schedule_batch import ScheduleBatch


class DecodeScheduler(DisaggScheduler):
    """Queues and arrivals of a decode worker."""

    role = DisaggregationMode.DECODE

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.bootstrap_queue = ReqQueue()
        self.prealloc_queue = ReqQueue()
        self.transfer_queue = ReqQueue()
        self._arrived: deque[KvArrived] = deque()
        self._num_attempts = 0

    def num_pages_needed(self, req: Req) -> int:
        return self.config.pages_for(req.num_input_tokens + req.recv.sampling_params.max_new_tokens)

    def num_queued(self) -> int:
        return len(self.bootstrap_queue) + len(self.prealloc_queue)

    def queues(self) -> dict[str, int]:
        return {
            "bootstrap": len(self.bootstrap_queue),
            "prealloc": len(self.prealloc_queue),
            "transfer": len(self.transfer_queue),
            "running": len(self.running),
        }

    # ---- handshake ----------------------------------------------------------------------------

    def _enqueue(self, req: Req, now_ns: int) -> None:
        if req.is_fake or req.room is None:
            req.stage = Stage.PREALLOC
            self.prealloc_queue.append(req)
            return
        req.stage = Stage.BOOTSTRAP
        req.time_stats.trace_ctx.begin("bootstrap", now_ns)
        end = self.rooms.terminal(req.room)
        if end is not None and end.failure is not None:
            self._abort_by_tombstone(req, end.failure, now_ns)
            return
        room = self.open_room(req, now_ns)
        if room is None:
            return
        self._num_attempts += 1
        req.attempt = Attempt(self.config.incarnation, self._num_attempts)
        req.peer = self._known_peer(req.recv.bootstrap_host, req.recv.bootstrap_port)
        room.peer, room.attempt = req.peer, req.attempt
        if req.peer in self.peers:
            self._join(req, now_ns)
        else:
            self.bootstrap_queue.append(req)
            self.emit(Connect(peer=req.peer))

    def _known_peer(self, host: str | None, port: int | None) -> str:
        return f"{host}:{port}"

    def _on_peer_up(self, message: PeerUp, now_ns: int) -> None:
        super()._on_peer_up(message, now_ns)
        for req in [req for req in self.bootstrap_queue if req.peer == message.peer]:
            self.bootstrap_queue.discard(req)
            self._join(req, now_ns)

    def _join(self, req: Req, now_ns: int) -> None:
        """Say that the request is here, before it has memory: prefill then knows whom to tell."""
        assert req.room is not None
        assert req.attempt is not None
        assert req.peer is not None
        room = self.rooms.open(req.room, now_ns)
        room.joined = True
        room.progress_ns = now_ns
        req.stage = Stage.PREALLOC
        req.time_stats.trace_ctx.end("bootstrap", now_ns)
        req.time_stats.trace_ctx.begin("queue", now_ns)
        self.prealloc_queue.append(req)
        join = Join(room=req.room, attempt=req.attempt, rid=req.rid)
        self.emit(Tell(peer=req.peer, message=join))

    def _on_handshake(self, peer: str, message: Join | Metadata | Committed, now_ns: int) -> None:
        raise InvariantError(f"{type(message).__name__} goes from decode to prefill")

    def _on_kv_settled(self, message: KvSettled, now_ns: int) -> None:
        raise InvariantError("decode stages nothing")

    def _retell_success(self, peer: str, end: TerminalRoom) -> bool:
        if end.attempt is None:
            return False
        self.emit(Tell(peer=peer, message=Committed(room=end.room, attempt=end.attempt)))
        return True

    def pop_preallocated(self, now_ns: int) -> None:
        """First come, first served: memory for the whole answer, then METADATA."""
        while (req := self.prealloc_queue.head) is not None and self._can_preallocate(req):
            self._preallocate(self.prealloc_queue.popleft(), now_ns)

    def _can_preallocate(self, req: Req) -> bool:
        slots = self.pools.metadata_slots.can_allocate(1)
        return slots and self.pools.can_admit(self.num_pages_needed(req))

    def _preallocate(self, req: Req, now_ns: int) -> None:
        self.pools.admit(req, self.num_pages_needed(req))
        if req.is_fake or req.room is None:
            self._run(req, TokenLogprob(token_id=0, logprob=0.0, margin=0.0), now_ns)
            return
        (req.metadata_slot,) = self.pools.metadata_slots.allocate(req.owner, 1)
        req.stage = Stage.DECODE_TRANSFER
        req.time_stats.trace_ctx.end("queue", now_ns)
        req.time_stats.trace_ctx.begin("decode.wait_kv", now_ns)
        self.transfer_queue.append(req)
        assert req.peer is not None
        assert req.attempt is not None
        self.rooms.update_status(req.room, KVPoll.WaitingForInput, now_ns)
        num_pages = self.config.pages_for(req.num_input_tokens)
        metadata = Metadata(room=req.room, attempt=req.attempt, num_pages=num_pages)
        self.emit(Tell(peer=req.peer, message=metadata))

    # ---- arrivals -----------------------------------------------------------------------------

    def _on_kv_arrived(self, message: KvArrived, now_ns: int) -> None:
        self._arrived.append(message)
        room = self.rooms.get(message.header.room)
        if room is not None and room.attempt == message.header.attempt:
            room.progress_ns = now_ns

    def scatter_arrived(self, now_ns: int) -> None:
        """Put arrived pages in place, a few a step so that running requests do not wait for them."""
        taken: dict[str, KvTaken] = {}
        for _ in range(min(len(self._arrived), self.config.max_scatters_per_step)):
            message = self._arrived.popleft()
            self._scatter(message, now_ns)
            taken[message.peer] = KvTaken(
                peer=message.peer, session=message.session, seq=message.seq
            )
        for effect in taken.values():
            self.emit(effect)

    def _scatter(self, message: KvArrived, now_ns: int) -> None:
        header = message.header
        req = self._by_room.get(header.room)
        if req is None or req.attempt != header.attempt or self.is_drained(req):
            self.num_stale_frames += 1
            return
        wrong = self._whats_wrong(req, message)
        if wrong is not None:
            self._fail_transfer(req, wrong, now_ns)
            return
        last = header.first_page + header.num_pages
        self.emit(Scatter(page_ids=req.page_ids[header.first_page : last], data=message.data))
        self.rooms.update_status(header.room, KVPoll.Transferring, now_ns)
        req.num_arrived_pages = last
        if header.is_last and header.first_token is not None:
            self._commit(req, header, header.first_token, now_ns)

    def _whats_wrong(self, req: Req, message: KvArrived) -> str | None:
        header = message.header
        num_pages = self.config.pages_for(req.num_input_tokens)
        last = header.first_page + header.num_pages
        if req.stage is not Stage.DECODE_TRANSFER:
            return "KV arrived for a request that does not wait for it"
        if not message.intact:
            return f"pages {header.first_page}..{last - 1} arrived damaged (checksum)"
        if header.first_page != req.num_arrived_pages or last > num_pages:
            return (
                f"pages {header.first_page}..{last - 1} arrived, {req.num_arrived_pages} expected"
            )
        if header.is_last != (last == num_pages) or header.is_last != bool(header.first_token):
            return f"the transfer ended at page {last} of {num_pages}"
        return None

    def _fail_transfer(self, req: Req, text: str, now_ns: int) -> None:
        failure = RoomFailure(
            reason=AbortReason.TRANSFER_FAILED,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            message=text,
            at_ns=now_ns,
        )
        assert req.room is not None
        room = self.rooms.get(req.room)
        if room is not None:
            self._fail_room(room, failure, now_ns)

    def _commit(self, req: Req, header: KvPages, first: TokenLogprob, now_ns: int) -> None:
        """Every page is here and intact: tell prefill and start to decode."""
        assert req.peer is not None
        self.rooms.update_status(header.room, KVPoll.Success, now_ns)
        self.rooms.close(header.room, now_ns, None, told=True)
        self._by_room.pop(header.room, None)
        self.emit(Tell(peer=req.peer, message=Committed(room=header.room, attempt=header.attempt)))
        self.transfer_queue.discard(req)
        self.pools.maybe_release_metadata_buffer(req)
        req.time_stats.trace_ctx.end("decode.wait_kv", now_ns)
        self._run(req, first, now_ns)

    def _run(self, req: Req, first: TokenLogprob, now_ns: int) -> None:
        req.stage = Stage.RUNNING
        req.num_cached_tokens = req.num_input_tokens
        self.deadlines.started(req, now_ns)
        req.time_stats.trace_ctx.begin("decode", now_ns)
        self.running.append(req)
        self.append_token(req, first, now_ns)

    # ---- schedule -----------------------------------------------------------------------------

    def resolve_failed_rooms(self, now_ns: int) -> None:
        for req, room, poll in self.poll_changed(now_ns):
            if poll is KVPoll.Failed:
                self.handle_room_failure(req, room, now_ns)

    def get_next_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
        return self.get_next_disagg_decode_batch_to_run(now_ns)

    def get_next_disagg_decode_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
        self.safe_point(now_ns)
        self.check_deadlines(now_ns)
        self.scatter_arrived(now_ns)
        self.resolve_failed_rooms(now_ns)
        if self.paused:
            return None
        self.pop_preallocated(now_ns)
        if not self.running:
            return None
        self.step += 1
        return ScheduleBatch(
            items=tuple(decode_item(req) for req in self.running),
            members=tuple(self.member(req) for req in self.running),
        )

    def _process_tokens(
        self, batch: ScheduleBatch, result: Sequence[TokenLogprob | None], now_ns: int
    ) -> None:
        for key, token in zip(batch.keys, result, strict=True):
            req = self.reqs.get(key)
            if req is None or req.is_aborted() or token is None:
                continue  # drained: never streamed
            req.num_cached_tokens += 1
            self.append_token(req, token, now_ns)

    def has_arrivals(self) -> bool:
        """Pages wait for the next step's slice: the loop must not sleep."""
        return bool(self._arrived)

    def _wasted(self, req: Req) -> tuple[int, int]:
        return 0, len(req.output)

    def _clear_slot(self, req: Req) -> None:
        super()._clear_slot(req)
        for queue in (self.bootstrap_queue, self.prealloc_queue, self.transfer_queue):
            queue.discard(req)

    def _overdue(self, room: Room, req: Req | None, now_ns: int) -> AbortReason | None:
        silent_ns = now_ns - room.progress_ns
        if room.state is KVPoll.Transferring:
            late = silent_ns > self.config.transfer_timeout_ns
            return AbortReason.TRANSFER_TIMEOUT if late else None
        late = silent_ns > self.config.bootstrap_timeout_ns
        return AbortReason.BOOTSTRAP_TIMEOUT if late else None
