"""`PrefillScheduler`: the prefill half of a pair.

    bootstrap queue -> (both halves ready) -> waiting queue -> chunks -> in-flight queue -> Committed

Pages are copied out as their chunk completes and are free once the last copy was made; what is sent, held
and sent again is the copy, whose size the staging pool bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.core.chunking import end_chunk, next_chunks
from engine.core.codes import (
    AbortOrigin,
    AbortReason,
    AbortVia,
    DisaggregationMode,
    KVPoll,
    Stage,
)
from engine.core.config import SchedulerConfig
from engine.core.fair_queue import FairQueue
from engine.core.io_struct import FinishReason, TokenLogprob
from engine.core.kv_sender import KvSender
from engine.core.optimistic import OptimisticPrefill
from engine.core.peer import (
    Committed,
    Join,
    Metadata,
    RoomStatus,
    Tell,
)
from engine.core.peer_lines import PeerLines
from engine.core.req import Req
from engine.core.rooms import Room, RoomFailure
from engine.core.schedule_batch import BatchMember, ScheduleBatch


class PrefillScheduler(KvSender):
    """Queues and transfers of a prefill worker."""

    role = DisaggregationMode.PREFILL

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.waiting_queue = self.waiting_lines = PeerLines(self._peer_of)
        self.bootstrapped = FairQueue()
        self.optimistic = OptimisticPrefill(config, self.pools)

    def num_pages_needed(self, req: Req) -> int:
        return self.config.pages_for(req.num_input_tokens)

    def num_queued(self) -> int:
        begun = len(self.inflight_queue) + self.num_chunked + self.optimistic.num_idle
        return len(self.reqs) - begun

    def queues(self) -> dict[str, int]:
        """``optimistic``: holds memory, does not compute, and its decode half is not ready."""
        return {
            "bootstrap": max(0, self.num_queued() - len(self.waiting_queue)),
            "waiting": len(self.waiting_queue),
            "optimistic": self.optimistic.num_idle,
            "chunked": self.num_chunked,
            "inflight": len(self.inflight_queue),
        }

    # ---- bootstrap ---------------------------------------------------------------------------

    def _enqueue(self, req: Req, now_ns: int) -> None:
        if req.is_fake or req.room is None:
            self._to_waiting_queue(req, now_ns)
            return
        req.stage = Stage.BOOTSTRAP
        req.time_stats.trace_ctx.begin("bootstrap", now_ns)
        end = self.rooms.terminal(req.room)
        if end is not None and end.failure is not None:
            self._abort_by_tombstone(req, end.failure, now_ns)
            return
        room = self.open_room(req, now_ns)
        if room is not None and room.state is KVPoll.WaitingForInput:
            self.bootstrapped.append(req, str(room.peer))
        elif room is not None:
            self.optimistic.add_candidate(req, self.num_pages_needed(req))

    def _on_handshake(self, peer: str, message: Join | Metadata | Committed, now_ns: int) -> None:
        if message.attempt.incarnation != self.peers.get(peer):
            self.num_stale_frames += 1
            return
        match message:
            case Join():
                self._on_join(peer, message, now_ns)
            case Metadata():
                self._on_metadata(peer, message, now_ns)
            case Committed():
                room = self.rooms.get(message.room)
                if room is not None and room.attempt == message.attempt:
                    self.rooms.update_status(message.room, KVPoll.Success, now_ns)

    def _on_join(self, peer: str, message: Join | Metadata, now_ns: int) -> Room | None:
        """Decode has the request. A room that ended here is answered with its abort."""
        end = self.rooms.terminal(message.room)
        if end is not None:
            self._answer_late(peer, message, end.failure)
            return None
        room = self.rooms.open(message.room, now_ns)
        if room.state is KVPoll.Failed or not _is_newer(message, room):
            self.num_stale_frames += 1
            return None
        if room.peer not in (None, peer):
            self._turn_away(peer, message, room, now_ns)
            return None
        room.peer, room.attempt, room.joined = peer, message.attempt, True
        room.progress_ns = now_ns
        return room

    def _turn_away(self, peer: str, message: Join | Metadata, room: Room, now_ns: int) -> None:
        """Two decodes with one room number: the first has it, the other need not wait to hear so."""
        failure = RoomFailure(
            reason=AbortReason.TRANSFER_FAILED,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            message=f"bootstrap_room {room.room} is in use by {room.peer}",
            at_ns=now_ns,
        )
        self.num_stale_frames += 1
        self._tell_failure(peer, message.room, message.attempt, failure)

    def _answer_late(
        self, peer: str, message: Join | Metadata, failure: RoomFailure | None
    ) -> None:
        if failure is not None:
            self._tell_failure(peer, message.room, message.attempt, failure)
        else:
            gone = RoomStatus(room=message.room, attempt=message.attempt, alive=False)
            self.emit(Tell(peer=peer, message=gone))

    def _on_metadata(self, peer: str, message: Metadata, now_ns: int) -> None:
        room = self._on_join(peer, message, now_ns)
        if room is None:
            return
        room.num_pages = message.num_pages
        self.rooms.update_status(message.room, KVPoll.WaitingForInput, now_ns)

    def resolve_waiting_queue_bootstrap(self, now_ns: int) -> None:
        """Act on every room whose state changed: waiting, in the chunk slot, or in flight."""
        for req, room, poll in self.poll_changed(now_ns):
            if poll is KVPoll.Failed:
                self.handle_room_failure(req, room, now_ns)
            elif poll is KVPoll.WaitingForInput:
                self._on_bootstrapped(req, str(room.peer))
            elif poll is KVPoll.Success:
                self._finish_transfer(req, room, now_ns)

    def _on_bootstrapped(self, req: Req, peer: str) -> None:
        """Who has computed already comes first: it holds memory."""
        self.optimistic.candidates.discard(req)
        if req.pending_bootstrap:
            self.bootstrapped.push_front(req, peer)
        else:
            self.bootstrapped.append(req, peer)

    def _known_peer(self, host: str | None, port: int | None) -> str | None:
        return None  # its JOIN will be answered

    def pop_bootstrapped(self, now_ns: int) -> None:
        """Requests whose decode half is ready enter the waiting queue, while metadata slots last."""
        while (req := self.bootstrapped.pop(self._has_metadata_slot)) is not None:
            self.finalize_bootstrap(req, now_ns)

    def _has_metadata_slot(self, peer: str) -> bool:
        return self.pools.metadata_slots.num_free_for(peer, self.shares.num_peers) > 0

    def finalize_bootstrap(self, req: Req, now_ns: int) -> None:
        """Take a metadata slot, and join the waiting queue or send what is computed (SGLang's name)."""
        room = self.rooms.get(req.room) if req.room is not None else None
        if room is not None and room.num_pages != self.num_pages_needed(req):
            text = f"decode expects {room.num_pages} pages, the prompt has {self.num_pages_needed(req)}"
            self.mark(req, AbortReason.TRANSFER_FAILED, AbortOrigin.SERVER, text, now_ns)
            return
        peer = self._peer_of(req) or ""
        (req.metadata_slot,) = self.pools.metadata_slots.allocate_for(peer, req.owner, 1)
        if req.pending_bootstrap:
            self._finalize_optimistic(req, now_ns)
        else:
            self._to_waiting_queue(req, now_ns)

    def _finalize_optimistic(self, req: Req, now_ns: int) -> None:
        """It goes on as if its bootstrap had come first."""
        if req in self.optimistic.set_aside:
            self.waiting_queue.push_front(req)
        self.optimistic.leave(req)
        req.time_stats.trace_ctx.end("bootstrap", now_ns)
        self.shares.admitted(req, self._peer_of(req), self.num_pages_needed(req))
        if req.output:
            self._to_inflight_queue(req)
        self.send_kv_chunk(req, now_ns)

    def _to_waiting_queue(self, req: Req, now_ns: int) -> None:
        req.stage = Stage.WAITING
        req.time_stats.trace_ctx.end("bootstrap", now_ns)
        req.time_stats.trace_ctx.begin("queue", now_ns)
        self.waiting_queue.append(req)

    # ---- schedule -----------------------------------------------------------------------------

    def get_next_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
        return self.get_next_disagg_prefill_batch_to_run(now_ns)

    def get_next_disagg_prefill_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
        self.safe_point(now_ns)
        self.check_deadlines(now_ns)
        self.resolve_waiting_queue_bootstrap(now_ns)
        self._send_held_back(now_ns)
        if self.paused:
            return None
        self.pop_bootstrapped(now_ns)
        self.yield_to_bootstrapped(now_ns)
        chunks = next_chunks(self, now_ns)
        if not chunks:
            return None
        self.step += 1
        return ScheduleBatch(
            items=tuple(item for _, item in chunks),
            members=tuple(self.member(req) for req, _ in chunks),
        )

    def _next_in_line(self) -> Req | None:
        """First come, first served among those whose pages their peer will take."""
        return self.waiting_lines.first(self._will_be_taken)

    def _will_be_taken(self, req: Req) -> bool:
        peer = self._peer_of(req)
        if peer is None or req.page_ids:
            return True
        return self.shares.can_send(peer, self.num_pages_needed(req))

    # ---- optimistic prefill ---------------------------------------------------------------------

    def next_waiting(self) -> Req | None:
        return self._next_in_line() or self.optimistic.head

    def can_admit(self, req: Req) -> bool:
        is_bounded = req not in self.waiting_queue and not req.page_ids
        if is_bounded and not self.optimistic.can_hold(self.num_pages_needed(req)):
            return False
        return super().can_admit(req)

    def start(self, req: Req, now_ns: int) -> None:
        is_optimistic = req not in self.waiting_queue
        super().start(req, now_ns)
        if is_optimistic:
            self.optimistic.take(req)
        else:
            self.shares.admitted(req, self._peer_of(req), self.num_pages_needed(req))

    def yield_to_bootstrapped(self, now_ns: int) -> None:
        """Who computes on trust goes behind the head of the queue, and makes room for it if need be."""
        head, current = self._next_in_line(), self.chunked_req
        if head is None or (current is not None and not current.pending_bootstrap):
            return
        needed = self.num_pages_needed(head)
        if not head.page_ids and not self.optimistic.could_make_room(needed, self.to_run_again):
            return
        if current is not None:
            self.chunked_req = None
            self.optimistic.put_aside(current, now_ns)
        for req in self.optimistic.idle:
            if not self.can_admit(head):
                self._retract(req, now_ns)

    def _retract(self, req: Req, now_ns: int) -> None:
        """It starts again, in the room of others (SGLang `optimistic_release_and_requeue`)."""
        self.optimistic.retract(req, now_ns)
        if req not in self.bootstrapped:
            self.optimistic.add_candidate(req, self.num_pages_needed(req))

    def member(self, req: Req) -> BatchMember:
        """While it computes, its decode half can end it."""
        member = super().member(req)
        room = self.rooms.get(req.room) if req.room is not None else None
        if room is None:
            return member
        return msgspec.structs.replace(member, peer=room.peer, attempt=room.attempt)

    def _process_tokens(
        self, batch: ScheduleBatch, result: Sequence[TokenLogprob | None], now_ns: int
    ) -> None:
        for key, item, token in zip(batch.keys, batch.items, result, strict=True):
            req = self.reqs.get(key)
            if req is None or self.is_drained(req):
                continue  # drained: never streamed, cached or sent
            end_chunk(req, len(item.input_ids), now_ns)
            if token is not None:
                self._end_prefill(req, token, now_ns)
            elif not req.pending_bootstrap:
                self.send_kv_chunk(req, now_ns)

    def _end_prefill(self, req: Req, token: TokenLogprob, now_ns: int) -> None:
        req.output.append(token)
        if req.is_fake or req.room is None:
            self.finish(req, now_ns, FinishReason(type="length", length=0), token)
            return
        if req.pending_bootstrap:
            self.optimistic.park(req)
            return
        self._to_inflight_queue(req)
        self.send_kv_chunk(req, now_ns)

    def _to_inflight_queue(self, req: Req) -> None:
        req.stage = Stage.TRANSFER
        self.inflight_queue.append(req)

    def _finish_transfer(self, req: Req, room: Room, now_ns: int) -> None:
        """Decode has every page (SGLang: inflight queue, KVPoll.Success)."""
        if req.finished() or req.stage is not Stage.TRANSFER or req.to_abort is not None:
            return
        req.time_stats.trace_ctx.end("kv.transfer", now_ns)
        self.rooms.close(room.room, now_ns, None, told=True)
        self._by_room.pop(room.room, None)
        self.finish(req, now_ns, FinishReason(type="length", length=0), req.output[-1])

    def _clear_slot(self, req: Req) -> None:
        super()._clear_slot(req)
        self.inflight_queue.discard(req)
        self.bootstrapped.discard(req)
        self.optimistic.leave(req)


def _is_newer(message: Join | Metadata, room: Room) -> bool:
    """Attempts of one incarnation are ordered; another incarnation's was fenced before."""
    if room.attempt is None or room.attempt.incarnation != message.attempt.incarnation:
        return True
    return message.attempt.counter >= room.attempt.counter
