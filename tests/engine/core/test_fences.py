"""What is left over on the wires, or comes from somebody else, moves no room that it does not belong to."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, KVPoll
from engine.core.config import SECOND_NS
from engine.core.peer import (
    AbortRoom,
    Attempt,
    Committed,
    Inbound,
    Join,
    KvArrived,
    KvPages,
    Metadata,
    PeerMessage,
    PeerSaid,
    PeerUp,
    RoomStatus,
    Tell,
)
from engine.core.rooms import MAX_TERMINAL_ROOMS, RoomFailure, RoomTable
from tests.engine.core.twin import PREFILL_ADDRESS, Pair, broken_laws, expected_tokens

NOW = SECOND_NS
PROMPT = tuple(range(1, 20))
OLD = Attempt("d-0", 9)
"""Of a dead incarnation."""


def abort(room: int, attempt: Attempt | None) -> AbortRoom:
    return AbortRoom(
        room=room,
        attempt=attempt,
        reason=AbortReason.SHUTDOWN,
        origin=AbortOrigin.OPERATOR,
        message="left over",
    )


class StrayMachine(RuleBasedStateMachine):
    """A pair at work, and frames that belong to nobody: every request completes with its own tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.pair.prefill.inbox.append(PeerUp(peer="other", incarnation="other-1"))
        self.num_rooms = 0
        self.run_both()

    @rule()
    def request(self) -> None:
        self.num_rooms += 1
        self.pair.request(f"r{self.num_rooms}", self.num_rooms, PROMPT, 3)

    @rule(rounds=st.integers(1, 3))
    def run_both(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.pair.connect()
            self.pair.deliver()
            for worker in self.pair.workers:
                worker.step(self.pair.now_ns)

    @rule(pick=st.integers(0, 20), kind=st.integers(0, 5), own_peer=st.booleans())
    def stray_at_prefill(self, pick: int, kind: int, own_peer: bool) -> None:
        """From the own peer with an attempt of its predecessor, or from somebody else altogether."""
        room = self._joined_at_prefill(pick)
        if room is None:
            return
        known = self.pair.prefill.core.rooms.get(room)
        assert known is not None
        current = known.attempt or OLD
        peer, attempt = ("d", OLD) if own_peer else ("other", current)
        message: PeerMessage = (
            abort(room, attempt),
            Join(room=room, attempt=attempt, rid="stray"),
            Metadata(room=room, attempt=attempt, num_pages=99),
            Committed(room=room, attempt=OLD),
            RoomStatus(room=room, attempt=OLD, alive=False),
            abort(room, OLD),
        )[kind]
        self.pair.prefill.inbox.append(PeerSaid(peer=peer, message=message))

    def _joined_at_prefill(self, pick: int) -> int | None:
        rooms = [r.room for r in self.pair.prefill.core.rooms.open_rooms() if r.joined]
        return rooms[pick % len(rooms)] if rooms else None

    @rule(pick=st.integers(0, 20), kind=st.integers(0, 3))
    def stray_at_decode(self, pick: int, kind: int) -> None:
        rooms = [r for r in self.pair.decode.core.rooms.open_rooms() if r.joined]
        if not rooms:
            return
        room = rooms[pick % len(rooms)]
        header = KvPages(
            room=room.room, attempt=OLD, first_page=0, num_pages=1, is_last=False, checksum=0
        )
        stray: Inbound = (
            PeerSaid(peer="q:1", message=abort(room.room, room.attempt)),
            PeerSaid(peer=PREFILL_ADDRESS, message=abort(room.room, OLD)),
            KvArrived(peer=PREFILL_ADDRESS, header=header, data=b"\xff" * 4, intact=True),
            PeerSaid(
                peer=PREFILL_ADDRESS,
                message=RoomStatus(room=room.room, attempt=OLD, alive=True),
            ),
        )[kind]
        self.pair.decode.inbox.append(stray)

    @rule(pick=st.integers(1, 40), with_attempt=st.booleans())
    def late_abort(self, pick: int, with_attempt: bool) -> None:
        """Of a room that is committed or gone: both halves know how it ended."""
        for worker, peer in ((self.pair.prefill, "d"), (self.pair.decode, PREFILL_ADDRESS)):
            end = worker.core.rooms.terminal(pick)
            if end is not None and end.failure is None:
                attempt = end.attempt if with_attempt else None
                worker.inbox.append(PeerSaid(peer=peer, message=abort(pick, attempt)))

    @invariant()
    def laws_hold(self) -> None:
        for worker in self.pair.workers:
            assert broken_laws(worker.core) == []

    def teardown(self) -> None:
        self.pair.settle()
        for number in range(1, self.num_rooms + 1):
            for worker in self.pair.workers:
                (answer,) = worker.answers(f"r{number}")
                assert answer.finish is not None
                assert answer.finish.type == "length", answer.finish
            assert self.pair.decode.tokens(f"r{number}") == expected_tokens(PROMPT, 3)
        for worker in self.pair.workers:
            assert worker.core.is_idle()
            assert worker.core.ledger_view().holders == ()


StrayMachine.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStrayMachine = StrayMachine.TestCase


def test_two_decodes_with_one_room_number() -> None:
    """The first has it; the second hears so at once and does not take it over."""
    pair = Pair()
    pair.request("a", 7, PROMPT, 2)
    pair.connect()
    for worker in (pair.decode, pair.prefill, pair.decode):
        pair.connect()
        pair.deliver()
        worker.step(NOW)
    pair.deliver()
    pair.prefill.inbox.append(PeerUp(peer="other", incarnation="other-1"))
    theirs = Attempt("other-1", 1)
    pair.prefill.inbox.append(PeerSaid(peer="other", message=Join(room=7, attempt=theirs, rid="b")))
    pair.prefill.step(NOW)
    told = [sent for sent in pair.prefill.sent if isinstance(sent, Tell) and sent.peer == "other"]
    assert [type(each.message) for each in told] == [AbortRoom]
    pair.prefill.sent = type(pair.prefill.sent)(s for s in pair.prefill.sent if s not in told)
    pair.settle()
    for worker in pair.workers:
        (answer,) = worker.answers("a")
        assert answer.finish is not None
        assert answer.finish.type == "length"


# ---- the memory of ends ----------------------------------------------------------------------------


def failure(at_ns: int) -> RoomFailure:
    return RoomFailure(
        reason=AbortReason.SHUTDOWN,
        origin=AbortOrigin.SERVER,
        via=AbortVia.LOCAL,
        message="",
        at_ns=at_ns,
    )


class RoomMachine(RuleBasedStateMachine):
    """Rooms against a model of them: Failed and Success absorb, ends are kept for their time."""

    KEEP_NS = 10

    def __init__(self) -> None:
        super().__init__()
        self.table = RoomTable(self.KEEP_NS, 10**9)
        self.states: dict[int, KVPoll] = {}
        self.ends: dict[int, int] = {}
        self.now_ns = 0

    @rule(room=st.integers(0, 5))
    def open(self, room: int) -> None:
        self.table.open(room, self.now_ns)
        self.states.setdefault(room, KVPoll.Bootstrapping)

    @rule(room=st.integers(0, 5), state=st.sampled_from(KVPoll))
    def advance(self, room: int, state: KVPoll) -> None:
        self.table.update_status(room, state, self.now_ns)
        now = self.states.get(room)
        if now is not None and now not in (KVPoll.Failed, KVPoll.Success):
            self.states[room] = max(now, state)

    @rule(room=st.integers(0, 5))
    def fail(self, room: int) -> None:
        may = self.states.get(room) not in (None, KVPoll.Failed, KVPoll.Success)
        assert self.table.fail(room, failure(self.now_ns)) is may
        if may:
            self.states[room] = KVPoll.Failed

    @rule(room=st.integers(0, 5), told=st.booleans())
    def close(self, room: int, told: bool) -> None:
        if room in self.states:
            found = self.table.get(room)
            assert found is not None
            found.peer = "d"
            self.table.close(room, self.now_ns, found.failure, told)
            del self.states[room]
            self.ends[room] = self.now_ns

    @rule()
    def peer_comes_back(self) -> None:
        first = self.table.untold("d")
        assert all(end.failure is not None and not end.told for end in first)
        assert self.table.untold("d") == []

    @rule(ns=st.integers(1, 6))
    def wait(self, ns: int) -> None:
        self.now_ns += ns
        self.table.expire(self.now_ns)

    @invariant()
    def rooms_are_as_they_should_be(self) -> None:
        assert {room.room: room.state for room in self.table.open_rooms()} == self.states

    @invariant()
    def ends_are_kept_for_their_time_and_not_for_good(self) -> None:
        for room, at_ns in self.ends.items():
            if self.now_ns - at_ns < self.KEEP_NS:
                assert self.table.terminal(room) is not None
            elif self.now_ns - at_ns >= 2 * self.KEEP_NS:
                assert self.table.terminal(room) is None


RoomMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestRoomMachine = RoomMachine.TestCase


def test_ends_are_bounded_in_number() -> None:
    table = RoomTable(10**18, 10**9)
    for room in range(MAX_TERMINAL_ROOMS + 50):
        table.open(room, 0)
        table.close(room, 0, None, told=True)
    assert table.num_terminal == MAX_TERMINAL_ROOMS
    assert table.terminal(0) is None
    assert table.terminal(MAX_TERMINAL_ROOMS) is not None
