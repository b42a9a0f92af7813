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
from engine.core.disagg import DisaggScheduler
from engine.core.errors import InvariantError
from engine.core.fair_queue import FairQueue
from engine.core.io_struct import FinishReason, TokenLogprob
from engine.core.peer import (
    Committed,
    Join,
    KvArrived,
    KvPages,
    KvSettled,
    Metadata,
    PeerLost,
    PeerUp,
    RoomStatus,
    SendKv,
    Tell,
)
from engine.core.req import Req
from engine.core.rooms import Room, RoomFailure
from engine.core.schedule_batch import BatchMember, ScheduleBatch
from engine.core.send_shares import SendShares


class PrefillScheduler(DisaggScheduler):
    """Queues and transfers of a prefill worker."""

    role = DisaggregationMode.PREFILL

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.bootstrapped = FairQueue()
        self.inflight_queue: list[Req] = []
        self.shares = SendShares(self.pools.staging)

    def num_pages_needed(self, req: Req) -> int:
        return self.config.pages_for(req.num_input_tokens)

    def num_queued(self) -> int:
        return len(self.reqs) - len(self.inflight_queue) - self.num_chunked

    def queues(self) -> dict[str, int]:
        waiting = len(self.waiting_queue) + self.num_chunked
        bootstrap = len(self.reqs) - waiting - len(self.inflight_queue)
        return {
            "bootstrap": max(0, bootstrap),
            "waiting": len(self.waiting_queue),
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
        for room in self.rooms.take_changed():
            req = self._by_room.get(room.room)
            if req is None:
                continue
            if room.state is KVPoll.Failed:
                self.handle_room_failure(req, room, now_ns)
            elif room.state is KVPoll.WaitingForInput and req not in self.bootstrapped:
                self.bootstrapped.append(req, str(room.peer))
            elif room.state is KVPoll.Success:
                self._finish_transfer(req, room, now_ns)

    def _known_peer(self, host: str | None, port: int | None) -> str | None:
        return None  # its JOIN will be answered

    def pop_bootstrapped(self, now_ns: int) -> None:
        """Requests whose decode half is ready enter the waiting queue, while metadata slots last."""
        while (req := self.bootstrapped.pop(self._has_metadata_slot)) is not None:
            self.finalize_bootstrap(req, now_ns)

    def _has_metadata_slot(self, peer: str) -> bool:
        return self.pools.metadata_slots.num_free_for(peer, self.shares.num_peers) > 0

    def finalize_bootstrap(self, req: Req, now_ns: int) -> None:
        """Take a metadata slot and join the waiting queue (SGLang has this name)."""
        room = self.rooms.get(req.room) if req.room is not None else None
        if room is not None and room.num_pages != self.num_pages_needed(req):
            text = f"decode expects {room.num_pages} pages, the prompt has {self.num_pages_needed(req)}"
            self.mark(req, AbortReason.TRANSFER_FAILED, AbortOrigin.SERVER, text, now_ns)
            return
        peer = self._peer_of(req) or ""
        (req.metadata_slot,) = self.pools.metadata_slots.allocate_for(peer, req.owner, 1)
        self._to_waiting_queue(req, now_ns)

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
        chunks = next_chunks(self, now_ns)
        if not chunks:
            return None
        self.step += 1
        return ScheduleBatch(
            items=tuple(item for _, item in chunks),
            members=tuple(self.member(req) for req, _ in chunks),
        )

    def next_waiting(self) -> Req | None:
        """First come, first served among those whose pages their peer will take."""
        stuck = set()
        for req in self.waiting_queue:
            peer = self._peer_of(req)
            needed = self.num_pages_needed(req)
            if peer is None or (peer not in stuck and self.shares.can_send(peer, needed)):
                return req
            stuck.add(peer)
        return None

    def _peer_of(self, req: Req) -> str | None:
        room = self.rooms.get(req.room) if req.room is not None else None
        return room.peer if room is not None else None

    def admit(self, req: Req) -> None:
        super().admit(req)
        self.shares.admitted(req, self._peer_of(req), self.num_pages_needed(req))

    def release_kv_cache(self, req: Req) -> int:
        self.shares.released(req)
        return super().release_kv_cache(req)

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
            else:
                self.send_kv_chunk(req, now_ns)

    def _end_prefill(self, req: Req, token: TokenLogprob, now_ns: int) -> None:
        req.output.append(token)
        if req.is_fake or req.room is None:
            self.finish(req, now_ns, FinishReason(type="length", length=0), token)
            return
        req.stage = Stage.TRANSFER
        self.inflight_queue.append(req)
        self.send_kv_chunk(req, now_ns)

    # ---- transfer -----------------------------------------------------------------------------

    def send_kv_chunk(self, req: Req, now_ns: int) -> None:
        """Copy out every whole page that is computed and not sent, as far as the peer's share of the
        staging space goes.

        A page that a chunk left half full goes with the next; with the last one goes the first token.
        """
        room = self.rooms.get(req.room) if req.room is not None else None
        if room is None or room.peer is None or room.attempt is None:
            raise InvariantError(f"{req.owner} computes before its room was bootstrapped")
        total = self.num_pages_needed(req)
        ready = total if req.output else req.num_cached_tokens // self.config.page_size
        while req.num_sent_pages < ready and (max_pages := self._max_frame(room.peer)):
            if req.num_sent_pages == 0:
                self.rooms.update_status(room.room, KVPoll.Transferring, now_ns)
                req.time_stats.trace_ctx.begin("kv.transfer", now_ns, **{"pd.pages": total})
            self._send_frame(req, room.peer, _frame(req, room, ready, max_pages, total), now_ns)
        if req.num_sent_pages == total:  # the first token went with the last page
            self.release_kv_cache(req)
            self.pools.maybe_release_metadata_buffer(req)

    def _max_frame(self, peer: str) -> int:
        chunk_pages = self.config.chunked_prefill_size // self.config.page_size
        return min(chunk_pages, self.shares.num_free_for(peer))

    def _send_frame(self, req: Req, peer: str, header: KvPages, now_ns: int) -> None:
        last = header.first_page + header.num_pages
        self.emit(
            SendKv(
                peer=peer,
                owner=req.owner,
                header=header,
                page_ids=req.page_ids[header.first_page : last],
                staging_ids=self.shares.stage(peer, req.owner, header.num_pages, now_ns),
            )
        )
        req.num_sent_pages = last

    def _send_held_back(self, now_ns: int) -> None:
        """Staging space has come free: go on where it was short."""
        for req in self.inflight_queue:
            if req.page_ids and not self.is_drained(req):
                self.send_kv_chunk(req, now_ns)

    def _on_kv_settled(self, message: KvSettled, now_ns: int) -> None:
        self.pools.staging.free(message.owner, message.staging_ids)
        room = self.rooms.get(message.room)
        if message.acknowledged:
            self.shares.took(message.peer, now_ns)
            if room is not None:
                room.progress_ns = now_ns

    def _on_peer_up(self, message: PeerUp, now_ns: int) -> None:
        super()._on_peer_up(message, now_ns)
        self.shares.num_peers = len(self.peers)

    def _on_peer_lost(self, message: PeerLost, now_ns: int) -> None:
        super()._on_peer_lost(message, now_ns)
        self.shares.num_peers = max(1, len(self.peers))
        self.shares.forget(message.peer)

    def _on_kv_arrived(self, message: KvArrived, now_ns: int) -> None:
        raise InvariantError("KV pages go from prefill to decode")

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
        self.inflight_queue = [other for other in self.inflight_queue if other is not req]
        if req in self.bootstrapped:
            self.bootstrapped.remove(req)

    # ---- deadlines ----------------------------------------------------------------------------

    def _overdue(self, room: Room, req: Req | None, now_ns: int) -> AbortReason | None:
        silent_ns = now_ns - room.progress_ns
        if req is not None and req.stage is Stage.TRANSFER:
            late = silent_ns > self.config.transfer_timeout_ns or self._must_yield(req, now_ns)
            return AbortReason.TRANSFER_TIMEOUT if late else None
        if room.state is KVPoll.Bootstrapping or not room.has_request:
            late = silent_ns > self.config.bootstrap_timeout_ns
            return AbortReason.BOOTSTRAP_TIMEOUT if late else None
        late = self.shares.stuck_ns(room.peer, now_ns) > self.config.transfer_timeout_ns
        return AbortReason.TRANSFER_TIMEOUT if late else None

    def _must_yield(self, req: Req, now_ns: int) -> bool:
        """Do its pages wait for a peer that takes nothing, while somebody else waits for pages?"""
        stuck_ns = self.shares.stuck_ns(self._peer_of(req), now_ns)
        if not req.page_ids or stuck_ns <= self.config.transfer_yield_ns:
            return False
        waits = self.next_waiting()
        return waits is not None and not self.can_admit(waits)


def _is_newer(message: Join | Metadata, room: Room) -> bool:
    """Attempts of one incarnation are ordered; another incarnation's was fenced before."""
    if room.attempt is None or room.attempt.incarnation != message.attempt.incarnation:
        return True
    return message.attempt.counter >= room.attempt.counter


def _frame(req: Req, room: Room, ready: int, max_pages: int, total: int) -> KvPages:
    num_pages = min(ready - req.num_sent_pages, max_pages)
    is_last = req.num_sent_pages + num_pages == total
    assert room.attempt is not None
    return KvPages(
        room=room.room,
        attempt=room.attempt,
        first_page=req.num_sent_pages,
        num_pages=num_pages,
        is_last=is_last,
        checksum=0,
        first_token=req.output[-1] if is_last else None,
    )
