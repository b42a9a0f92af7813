"""`DisaggScheduler`: what both halves of a pair share: rooms, peers, and telling of every abort.

A room fails when its peer is lost, when the peer says so, or when a deadline passes without a sign of
life. Failures come in as changed rooms, O(changes) a step, and end in the same abort as a client's.
"""

from __future__ import annotations

from abc import abstractmethod

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, KVPoll, Stage
from engine.core.config import SchedulerConfig
from engine.core.errors import InvariantError
from engine.core.io_struct import RefusedReq
from engine.core.peer import (
    AbortRoom,
    Attempt,
    Committed,
    Connect,
    Inbound,
    Join,
    KvArrived,
    KvSettled,
    Metadata,
    PeerLost,
    PeerMessage,
    PeerSaid,
    PeerUp,
    RoomQuery,
    RoomStatus,
    Tell,
)
from engine.core.polling import INJECTED, poll_and_all_reduce_attn_cp_tp_group
from engine.core.req import Req
from engine.core.rooms import Room, RoomFailure, TerminalRoom
from engine.core.scheduler import Scheduler


class DisaggScheduler(Scheduler):
    """Rooms and peers of one half."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        self.peers: dict[str, str] = {}
        self.num_stale_frames = 0
        self._by_room: dict[int, Req] = {}

    # ---- news from the links -------------------------------------------------------------------

    def _on_link(self, message: Inbound, now_ns: int) -> None:
        match message:
            case PeerUp():
                self._on_peer_up(message, now_ns)
            case PeerLost():
                self._on_peer_lost(message, now_ns)
            case PeerSaid():
                self._on_peer_said(message.peer, message.message, now_ns)
            case KvArrived():
                self._on_kv_arrived(message, now_ns)
            case KvSettled():
                self._on_kv_settled(message, now_ns)
            case RefusedReq():
                self._on_refused(message, now_ns)
            case _:
                raise InvariantError(f"{type(message).__name__} is no news of a peer")

    def _on_peer_up(self, message: PeerUp, now_ns: int) -> None:
        """The pair can talk: catch up on aborts that it has not heard of."""
        self.peers[message.peer] = message.incarnation
        for end in self.rooms.untold(message.peer):
            if end.failure is not None:
                self._tell_failure(message.peer, end.room, end.attempt, end.failure)

    def _on_peer_lost(self, message: PeerLost, now_ns: int) -> None:
        """Every room joined with it fails; requests that have not met it yet keep waiting for it."""
        self.peers.pop(message.peer, None)
        failure = RoomFailure(
            reason=message.reason,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            message=message.message,
            at_ns=now_ns,
        )
        for room in self.rooms.joined_with(message.peer):
            self._fail_room(room, failure, now_ns)

    def _on_peer_said(self, peer: str, message: PeerMessage, now_ns: int) -> None:
        match message:
            case AbortRoom():
                self._on_abort_room(peer, message, now_ns)
            case RoomQuery():
                self._on_room_query(peer, message)
            case RoomStatus():
                self._on_room_status(message, now_ns)
            case Join() | Metadata() | Committed():
                self._on_handshake(peer, message, now_ns)

    @abstractmethod
    def _on_handshake(
        self, peer: str, message: Join | Metadata | Committed, now_ns: int
    ) -> None: ...

    @abstractmethod
    def _on_kv_arrived(self, message: KvArrived, now_ns: int) -> None: ...

    @abstractmethod
    def _on_kv_settled(self, message: KvSettled, now_ns: int) -> None: ...

    def _on_abort_room(self, peer: str, message: AbortRoom, now_ns: int) -> None:
        """The peer gave up. For a room that we do not know yet, a tombstone waits for its request."""
        failure = RoomFailure(
            reason=message.reason,
            origin=message.origin,
            via=AbortVia.PEER,
            message=message.message,
            at_ns=now_ns,
        )
        room = self.rooms.get(message.room)
        if room is None and self.rooms.terminal(message.room) is None:
            self._bury(message.room, peer, message.attempt, failure, now_ns)
        elif room is not None and _concerns(message, peer, room):
            self._fail_room(room, failure, now_ns)
        elif room is not None:
            self.num_stale_frames += 1

    def _bury(
        self, room: int, peer: str, attempt: Attempt | None, failure: RoomFailure, now_ns: int
    ) -> None:
        self.rooms.remember(
            TerminalRoom(
                room=room, peer=peer, attempt=attempt, failure=failure, told=True, at_ns=now_ns
            )
        )

    def _on_room_query(self, peer: str, message: RoomQuery) -> None:
        room, end = self.rooms.get(message.room), self.rooms.terminal(message.room)
        if room is None and end is not None and end.failure is not None:
            self._tell_failure(peer, message.room, message.attempt, end.failure)
            return
        if room is None and end is not None and self._retell_success(peer, end):
            return
        alive = room is not None and room.has_request and room.attempt == message.attempt
        status = RoomStatus(room=message.room, attempt=message.attempt, alive=alive)
        self.emit(Tell(peer=peer, message=status))

    def _retell_success(self, peer: str, end: TerminalRoom) -> bool:
        """Say again that a room succeeded, where this half is the one to say so."""
        return False

    def _on_room_status(self, message: RoomStatus, now_ns: int) -> None:
        room = self.rooms.get(message.room)
        if room is not None and message.alive and message.attempt == room.attempt:
            req = self._by_room.get(message.room)
            if req is None or req.stage is not Stage.TRANSFER:
                room.progress_ns = now_ns

    def open_room(self, req: Req, now_ns: int) -> Room | None:
        """The room of a new request; None (and the request marked) if another request has it."""
        assert req.room is not None
        if req.room in self._by_room:
            text = f"bootstrap_room {req.room} is in use by rid={self._by_room[req.room].rid}"
            self.mark(req, AbortReason.TRANSFER_FAILED, AbortOrigin.SERVER, text, now_ns)
            return None
        room = self.rooms.open(req.room, now_ns)
        room.has_request = True
        room.progress_ns = now_ns
        self._by_room[req.room] = req
        return room

    def _abort_by_tombstone(self, req: Req, failure: RoomFailure, now_ns: int) -> None:
        """The peer gave up before this half's request arrived."""
        text = f"Bootstrap failed for rid={req.rid} room={req.room}: {failure.message}"
        self.mark(req, failure.reason, failure.origin, text, now_ns, AbortVia.PEER)

    # ---- polls -----------------------------------------------------------------------------------

    def poll_changed(self, now_ns: int) -> list[tuple[Req, Room, KVPoll]]:
        """Requests whose room has changed, with the state that all ranks agree on: O(changes)."""
        rooms = [room for room in self.rooms.take_changed() if room.room in self._by_room]
        if not rooms:
            return []
        for room in rooms:
            self._maybe_fail_poll(room, now_ns)
        polls = poll_and_all_reduce_attn_cp_tp_group([[room.state for room in rooms]])
        return [
            (self._by_room[room.room], room, poll) for room, poll in zip(rooms, polls, strict=True)
        ]

    def _maybe_fail_poll(self, room: Room, now_ns: int) -> None:
        is_over = room.state in (KVPoll.Failed, KVPoll.Success)
        if is_over or self._by_room[room.room].is_aborted() or not self.poll_failures.fires():
            return
        failure = RoomFailure(
            reason=AbortReason.TRANSFER_FAILED,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            message=INJECTED,
            at_ns=now_ns,
        )
        self._fail_room(room, failure, now_ns)

    # ---- failed rooms ----------------------------------------------------------------------------

    def _fail_room(self, room: Room, failure: RoomFailure, now_ns: int) -> None:
        """Mark a room failed. One that has no request here ends at once, as a tombstone."""
        if self.rooms.fail(room.room, failure) and not room.has_request:
            told = failure.via is AbortVia.PEER or self._tell_room_failure(room, failure)
            self.rooms.close(room.room, now_ns, failure, told)

    def is_drained(self, req: Req) -> bool:
        """Must a result for this request be thrown away?"""
        room = self.rooms.get(req.room) if req.room is not None else None
        return req.is_aborted() or (room is not None and room.state is KVPoll.Failed)

    def handle_room_failure(self, req: Req, room: Room, now_ns: int) -> None:
        """Abort a request whose room has failed (SGLang `handle_bootstrap_failure` and
        `handle_inflight_transfer_failure`); runs at the safe point."""
        failure = room.failure
        if failure is None or req.finished():
            return
        text = (
            f"{_WHAT_FAILED[req.stage]} failed for rid={req.rid} room={req.room}: {failure.message}"
        )
        self.mark(req, failure.reason, failure.origin, text, failure.at_ns, failure.via)
        self._abort(req, now_ns)

    def _abort_sender(self, req: Req, now_ns: int) -> None:
        """Tell the peer, unless it told us, and close the room."""
        info = req.finished_reason.abort if req.finished_reason else None
        if req.room is None or req.is_fake or info is None:
            return
        failure = RoomFailure(
            reason=info.reason,
            origin=info.origin,
            via=info.via,
            message=info.message,
            at_ns=now_ns,
        )
        holder, room = self._by_room.get(req.room), self.rooms.get(req.room)
        if holder is None and req.stage is Stage.QUEUE:
            self._refuse_room(req, req.room, failure, now_ns)
        elif holder is req and room is not None:
            self._close_failed(req, room, failure, now_ns)

    def _close_failed(self, req: Req, room: Room, failure: RoomFailure, now_ns: int) -> None:
        told = failure.via is AbortVia.PEER
        if not told and self._tell_room_failure(room, failure):
            told = True
            self._note_told(req, room.peer or "", now_ns)
        self.rooms.close(room.room, now_ns, failure, told)
        self._by_room.pop(room.room, None)

    def _note_told(self, req: Req, peer: str, now_ns: int) -> None:
        req.time_stats.trace_ctx.abort_child("abort.notify_peer", now_ns, **{"pd.peer": peer})

    def _refuse_room(self, req: Req, number: int, failure: RoomFailure, now_ns: int) -> None:
        """The request was refused before it had its room: the other half must not wait for it."""
        peer = self._known_peer(req.recv.bootstrap_host, req.recv.bootstrap_port)
        if self._refuse_number(number, peer, failure, now_ns):
            self._note_told(req, peer or "", now_ns)

    def _on_refused(self, message: RefusedReq, now_ns: int) -> None:
        """As `_refuse_room`, by the HTTP side. A room that has a request here is somebody else's."""
        if message.bootstrap_room in self._by_room:
            return
        failure = RoomFailure(
            reason=message.reason,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            message=message.message,
            at_ns=now_ns,
        )
        peer = self._known_peer(message.bootstrap_host, message.bootstrap_port)
        self._refuse_number(message.bootstrap_room, peer, failure, now_ns)

    def _refuse_number(
        self, number: int, peer: str | None, failure: RoomFailure, now_ns: int
    ) -> bool:
        """End a room that has no request here. True if the named ``peer`` was told."""
        room = self.rooms.get(number)
        if room is not None and not room.has_request:  # JOIN came first
            self._fail_room(room, failure, now_ns)
        if room is not None or self.rooms.terminal(number) is not None:
            return False
        told = peer in self.peers
        if peer is not None and told:
            self._tell_failure(peer, number, None, failure)
        elif peer is not None:
            self.emit(Connect(peer=peer))
        self.rooms.remember(
            TerminalRoom(
                room=number, peer=peer, attempt=None, failure=failure, told=told, at_ns=now_ns
            )
        )
        return told

    @abstractmethod
    def _known_peer(self, host: str | None, port: int | None) -> str | None:
        """The other half's name, where the request itself says it."""

    def _tell_room_failure(self, room: Room, failure: RoomFailure) -> bool:
        """True if the peer is there to be told; else it hears when it comes up or asks."""
        if not room.joined or room.peer is None or room.peer not in self.peers:
            return False
        self._tell_failure(room.peer, room.room, room.attempt, failure)
        return True

    def _tell_failure(
        self, peer: str, room: int, attempt: Attempt | None, failure: RoomFailure
    ) -> None:
        message = AbortRoom(
            room=room,
            attempt=attempt,
            reason=failure.reason,
            origin=failure.origin,
            message=failure.message,
        )
        self.emit(Tell(peer=peer, message=message))

    # ---- deadlines -------------------------------------------------------------------------------

    def check_deadlines(self, now_ns: int) -> None:
        """Fail rooms without a sign of life; ask about those without one for a second."""
        self.rooms.expire(now_ns)
        for room in self.rooms.take_due(now_ns):
            self.rooms.watch.arm(room.room, self._look_again_ns(room, now_ns))
            reason = self._overdue(room, self._by_room.get(room.room), now_ns)
            if reason is not None:
                self._time_out(room, reason, now_ns)
            else:
                self._ask(room, now_ns)

    def _look_again_ns(self, room: Room, now_ns: int) -> int:
        """When the next question or deadline may be due, but within one question's time."""
        ask_ns, config = self.config.room_query_ns, self.config
        times = (
            max(room.progress_ns, room.asked_ns) + ask_ns,
            room.progress_ns + config.bootstrap_timeout_ns + 1,
            room.progress_ns + config.transfer_timeout_ns + 1,
        )
        return min([now_ns + ask_ns, *(at_ns for at_ns in times if at_ns > now_ns)])

    @abstractmethod
    def _overdue(self, room: Room, req: Req | None, now_ns: int) -> AbortReason | None:
        """Which deadline of the room has passed, if any."""

    def _time_out(self, room: Room, reason: AbortReason, now_ns: int) -> None:
        silent_s = (now_ns - room.progress_ns) / 1e9
        failure = RoomFailure(
            reason=reason,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            message=f"no sign of life from the peer for {silent_s:.1f} s",
            at_ns=now_ns,
        )
        self._fail_room(room, failure, now_ns)

    def _ask(self, room: Room, now_ns: int) -> None:
        last = max(room.progress_ns, room.asked_ns)
        if not room.joined or room.peer not in self.peers or room.attempt is None:
            return
        if now_ns - last >= self.config.room_query_ns and room.state is not KVPoll.Failed:
            room.asked_ns = now_ns
            query = RoomQuery(room=room.room, attempt=room.attempt)
            self.emit(Tell(peer=str(room.peer), message=query))

    def is_idle(self) -> bool:
        return super().is_idle() and not len(self.rooms)


def _concerns(message: AbortRoom, peer: str, room: Room) -> bool:
    """Only a room's own peer may end it. One that has not joined knows no attempt yet, and prefill's no
    peer either."""
    if room.peer not in (None, peer):
        return False
    return not room.joined or message.attempt in (None, room.attempt)


_WHAT_FAILED = {
    Stage.QUEUE: "Admission",
    Stage.BOOTSTRAP: "Bootstrap",
    Stage.WAITING: "Bootstrap",
    Stage.MID_CHUNK: "Prefill",
    Stage.LAST_CHUNK: "Prefill",
    Stage.TRANSFER: "Prefill transfer",
    Stage.PREALLOC: "Decode handshake",
    Stage.DECODE_TRANSFER: "Decode transfer",
    Stage.DECODE_WAITING: "Decode",
    Stage.RUNNING: "Decode",
    Stage.TOKENIZE: "Tokenizing",
}
