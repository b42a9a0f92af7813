"""`KvSender`: how prefill sends pages: copied out as far as the peer's share of the staging space goes.

A decode that takes nothing costs no other decode anything: see `engine.core.send_shares`.
"""

from __future__ import annotations

from engine.core.codes import AbortReason, KVPoll, Stage
from engine.core.config import SchedulerConfig
from engine.core.disagg import DisaggScheduler
from engine.core.errors import InvariantError
from engine.core.peer import KvArrived, KvPages, KvSettled, PeerLost, PeerUp, SendKv
from engine.core.req import Req
from engine.core.req_queue import ReqQueue
from engine.core.rooms import Room
from engine.core.send_shares import SendShares


class KvSender(DisaggScheduler):
    """Transfers of a prefill worker."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.inflight_queue = ReqQueue()
        self.shares = SendShares(self.pools.staging)

    def _peer_of(self, req: Req) -> str | None:
        room = self.rooms.get(req.room) if req.room is not None else None
        return room.peer if room is not None else None

    def release_kv_cache(self, req: Req) -> int:
        self.shares.released(req)
        return super().release_kv_cache(req)

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
