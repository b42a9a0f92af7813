"""Brings about one cell of the abort matrix: request "a" at a place, and then the cause."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.core.abort_matrix import Cell, Told
from engine.core.codes import AbortOrigin, AbortReason, DisaggregationMode, Stage
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortInfo, AbortReq
from engine.core.ledger import Resource
from engine.core.peer import AbortRoom, Inbound, KvArrived, Metadata, PeerLost, PeerSaid, Tell
from tests.engine.core.test_abort_paths import LONG, the_abort, until_stage
from tests.engine.core.twin import PAGE, Pair, Worker, make_config, make_request

ROOM = 7
HALF = SECOND_NS // 2
UNIFIED, PREFILL, DECODE = DisaggregationMode
NEEDS_JOIN = ("peer_dead", "told_by_peer")
HITS_BOTH = ("peer_dead", "bootstrap_timeout", "transfer_timeout", "told_by_peer")


class Scene:
    """Two halves, or one worker alone. ``worker`` is where it happens, ``other`` its other half."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.stage, self.cause = cell.place.stage, cell.cause
        changes = {
            "waiting_timeout": {"waiting_timeout_ns": HALF},
            "running_timeout": {"running_timeout_ns": HALF},
            "queue_full": {"max_queued_requests": 1},
        }.get(self.cause.name, {})
        changes["optimistic_prefill_attempts"] = int(cell.place.optimistic)
        self.pair = Pair(decode_pages=8 if self._decode_is_full() else 24, **changes)
        self.worker = {PREFILL: self.pair.prefill, DECODE: self.pair.decode}.get(
            cell.place.role, Worker(UNIFIED, make_config("u", **changes))
        )
        self.other = {PREFILL: self.pair.decode, DECODE: self.pair.prefill}.get(cell.place.role)
        if self.cause.name == "input_too_long":
            self.worker.core.config = make_config("small", 2)

    def _decode_is_full(self) -> bool:
        """Somebody else has decode's memory, so that prefill has no more than the JOIN."""
        joins_only = self.stage is Stage.BOOTSTRAP and self.cause.name in NEEDS_JOIN
        return self.stage is Stage.PREALLOC or joins_only or self.cell.place.optimistic

    @property
    def owner(self) -> str:
        return "a" if self.other is None else f"a/{ROOM}"

    @property
    def held(self) -> dict[str, int]:
        """What "a" has in the ledger of the worker."""
        holders = self.worker.core.pools.ledger.holders()
        return {h.resource: h.count for h in holders if h.owner == self.owner}

    @property
    def num_told(self) -> int:
        """ABORTs about the room, on their way to the other half."""
        return sum(
            isinstance(sent, Tell)
            and isinstance(sent.message, AbortRoom)
            and sent.message.room == ROOM
            for sent in self.worker.sent
        )

    # ---- to the place --------------------------------------------------------------------------

    def ask(self, *workers: Worker, rid: str = "a", room: int = ROOM) -> None:
        now_ns = self.pair.now_ns
        deadline_ns = now_ns + HALF if self.cause.name == "deadline_s" and rid == "a" else 0
        for worker in workers:
            number = None if self.other is None else room
            request = make_request(rid, number, LONG, 6, now_ns, deadline_ns)
            worker.inbox.append(request)

    def reach(self) -> None:
        """Put "a" at the place; for the last chunk, one step before it."""
        if self.stage is Stage.QUEUE or self.cause.name == "room_in_use":
            return  # it is refused as it arrives
        halves = (self.worker,) if self.other is None else (self.worker, self.other)
        if self.other is None:
            self.ask(*halves)
            self.worker.recv(self.pair.now_ns)
            steps = {Stage.MID_CHUNK: 1, Stage.LAST_CHUNK: 2, Stage.RUNNING: 4}.get(self.stage, 0)
            for _ in range(steps):
                self.worker.step(self.pair.now_ns)
        elif self.stage is Stage.BOOTSTRAP and not self._decode_is_full():
            self.ask(*halves)
            self.worker.recv(self.pair.now_ns)
        else:
            self._reach_in_pair(halves)

    def _reach_in_pair(self, halves: Sequence[Worker]) -> None:
        if self._decode_is_full():
            self.ask(*halves, rid="z", room=6)
            until_stage(self.pair, self.pair.decode, "z", Stage.DECODE_TRANSFER)
        elif self.stage is Stage.WAITING:
            self.ask(*halves, rid="z", room=6)
            until_stage(self.pair, self.worker, "z", Stage.MID_CHUNK)
        self.ask(*halves)
        if self._decode_is_full():
            until_stage(self.pair, self.pair.decode, "a", Stage.PREALLOC)
            self.pair.deliver()
            self.pair.prefill.recv(self.pair.now_ns)
            if self.cell.place.optimistic:
                self._compute_on_trust()
        elif self.stage is Stage.LAST_CHUNK:
            until_stage(self.pair, self.worker, "a", Stage.MID_CHUNK)
            self.worker.step(self.pair.now_ns)
        else:
            until_stage(self.pair, self.worker, "a", self.stage)
        if (
            self.cause.name in ("transfer_timeout", "damaged_pages")
            and self.cell.place.role is DECODE
        ):
            self._first_pages_arrive()

    def _compute_on_trust(self) -> None:
        """After "z", as far as the place has it; for the last chunk, one step before it."""
        req = self.worker.core.reqs["a", ROOM]
        is_last = self.stage is Stage.LAST_CHUNK
        while not (req.stage is self.stage or (is_last and req.chunk_index == 2)):
            assert self.worker.step(self.pair.now_ns), "nothing is left to compute"

    def _first_pages_arrive(self) -> None:
        self.pair.deliver()
        self.pair.prefill.step(self.pair.now_ns)
        self.pair.deliver()
        if self.cause.name == "transfer_timeout":
            self.pair.decode.step(self.pair.now_ns)

    # ---- the cause -----------------------------------------------------------------------------

    def strike(self) -> AbortInfo:
        """The cause, and the steps up to the safe point that takes it."""
        match self.cause.name:
            case "client_abort" | "client_disconnect" | "shutdown":
                self._arrive([self._abort_req()])
            case "deadline_s" | "waiting_timeout" | "running_timeout":
                self._pass(HALF)
            case "bootstrap_timeout" | "transfer_timeout":
                self.pair.is_cut = True
                self._pass(11 * SECOND_NS)
            case "peer_dead":
                self._lose_peer()
            case "told_by_peer":
                self._abort_the_other()
            case "damaged_pages":
                arrived = self.worker.inbox.pop()
                assert isinstance(arrived, KvArrived)
                self._arrive([msgspec.structs.replace(arrived, intact=False)])
            case "other_size":
                self._promise_another_size()
            case "queue_full" | "room_in_use":
                is_room = self.cause.name == "room_in_use"
                self.worker.inbox.clear()
                self._refuse(ROOM if is_room else 6)
            case "input_too_long":
                self.ask(*(each for each in (self.worker, self.other) if each))
                self._arrive([])
        return the_abort(self.worker, "a")

    def _arrive(self, messages: Sequence[Inbound]) -> None:
        if self.stage is Stage.LAST_CHUNK:
            self.worker.step(self.pair.now_ns, in_forward=messages)
            messages = ()
        self.worker.inbox.extend(messages)
        self.worker.step(self.pair.now_ns)

    def _pass(self, time_ns: int) -> None:
        if self.stage is Stage.LAST_CHUNK:  # the deadline stops the forward
            self.worker.step(self.pair.now_ns, cancel=True)
        self.pair.now_ns += time_ns
        self.worker.step(self.pair.now_ns)

    def _abort_req(self) -> AbortReq:
        assert self.cause.reason is not None
        assert self.cause.origin is not None
        return AbortReq(
            rid="a",
            reason=self.cause.reason,
            origin=self.cause.origin,
            received_ns=self.pair.now_ns,
        )

    def _lose_peer(self) -> None:
        if self.stage is Stage.LAST_CHUNK:
            lost = PeerLost(peer="d", reason=AbortReason.PEER_DEAD, message="no beat")
            self.worker.step(self.pair.now_ns, in_forward=[lost])
        self.pair.lose_session()
        self.worker.step(self.pair.now_ns)

    def _abort_the_other(self) -> None:
        assert self.other is not None
        self.pair.deliver()
        self.other.inbox.append(
            AbortReq(
                rid="a",
                reason=AbortReason.SHUTDOWN,
                origin=AbortOrigin.OPERATOR,
                received_ns=self.pair.now_ns,
            )
        )
        self.other.step(self.pair.now_ns)
        self.pair.deliver()
        messages = list(self.worker.inbox)
        self.worker.inbox.clear()
        self._arrive(messages)

    def _promise_another_size(self) -> None:
        if self.cell.place.optimistic:
            self._promise_to_who_has_computed()
        else:
            self._promise_to_who_waits()

    def _promise_to_who_has_computed(self) -> None:
        worker = self.worker
        if self.stage is Stage.LAST_CHUNK:
            worker.step(self.pair.now_ns, cancel=True)
        room = worker.core.rooms.get(ROOM)
        assert room is not None
        assert room.attempt is not None
        wrong = Metadata(room=ROOM, attempt=room.attempt, num_pages=99)
        worker.inbox.append(PeerSaid(peer="d", message=wrong))
        for _ in range(2):
            worker.step(self.pair.now_ns)

    def _promise_to_who_waits(self) -> None:
        decode, prefill = self.pair.decode, self.pair.prefill
        for _ in range(2):
            decode.step(self.pair.now_ns)
            self.pair.deliver(0 if decode.sent and self.pair.is_up else 1)
            self.pair.connect()
        decode.step(self.pair.now_ns)
        for index, sent in enumerate(decode.sent):
            if isinstance(sent, Tell) and isinstance(sent.message, Metadata):
                wrong = msgspec.structs.replace(sent.message, num_pages=99)
                decode.sent[index] = Tell(peer=sent.peer, message=wrong)
        self.pair.deliver()
        for _ in range(2):
            prefill.step(self.pair.now_ns)

    def _refuse(self, other_room: int) -> None:
        """Somebody else, "z", is there before "a"."""
        self.worker = self._fresh_worker()
        self.ask(self.worker, rid="z", room=other_room)
        self.ask(self.worker)
        self.worker.step(self.pair.now_ns)

    def _fresh_worker(self) -> Worker:
        fresh = Worker(self.cell.place.role, self.worker.core.config)
        if self.worker is self.pair.prefill:
            self.pair.prefill = fresh
        elif self.worker is self.pair.decode:
            self.pair.decode = fresh
        return fresh

    # ---- afterwards ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Heal and run until everybody is idle."""
        if self.other is not None:
            self.pair.settle()
            return
        while self.worker.step(self.pair.now_ns):
            pass

    def is_told_itself(self) -> bool:
        """Does the other half have no cause of its own, so that it must have been told?"""
        has_own = self.cause.name in HITS_BOTH or self.cause.reason is AbortReason.DEADLINE
        return self.cell.told is not Told.NOBODY and not has_own


def num_kv_pages(held: dict[str, int]) -> int:
    return held.get(Resource.KV_PAGES, 0)


assert len(LONG) > 2 * 2 * PAGE, "three chunks"
