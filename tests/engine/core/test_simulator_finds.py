"""Bugs that the simulator found, one test each."""

from __future__ import annotations

import pytest

from engine.core.codes import AbortReason, AbortVia
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortInfo
from engine.core.peer import Connect, Inbound
from engine.simulator.clock import MS_NS, VirtualClock
from engine.simulator.network import Network, Wire
from engine.simulator.sockets import Sockets
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Route
from engine.transfer.session import Identity
from tests.engine.core.twin import Pair, Worker, make_abort

NOW = SECOND_NS
PROMPT = tuple(range(1, 10))


def the_abort(worker: Worker, rid: str) -> AbortInfo:
    (answer,) = worker.answers(rid)
    assert answer.finish is not None
    assert answer.finish.abort is not None
    return answer.finish.abort


def move(pair: Pair, rounds: int = 3) -> None:
    """Both loops and both wires, in no time at all."""
    for _ in range(rounds):
        pair.connect()
        for worker in (pair.decode, pair.prefill):
            pair.deliver()
            worker.step(pair.now_ns)


def decode_request(pair: Pair, rid: str, room: int) -> Inbound:
    """A request that has not been handed to either half yet."""
    pair.request(rid, room, PROMPT, 2)
    pair.prefill.inbox.pop()
    return pair.decode.inbox.pop()


def test_abort_at_decode_before_its_join_reaches_prefill_with_the_request() -> None:
    """Seed 14: prefill had the request and no attempt yet, and dropped the abort for its attempt."""
    pair = Pair()
    pair.request("a", 7, PROMPT, 2)
    pair.prefill.step(NOW)
    pair.decode.step(NOW)
    pair.decode.inbox.append(make_abort("a", NOW))
    pair.decode.step(NOW)
    assert the_abort(pair.decode, "a").via is AbortVia.LOCAL
    move(pair)
    told = the_abort(pair.prefill, "a")
    assert told.via is AbortVia.PEER
    assert told.reason is AbortReason.CLIENT_ABORT


@pytest.mark.parametrize("join_first", [False, True])
def test_a_full_queue_at_prefill_is_told_to_decode(join_first: bool) -> None:
    """Seed 1: a refused request never had a room, so decode waited out its deadline."""
    pair = Pair(max_queued_requests=1)
    pair.prefill.inbox.append(decode_request(pair, "first", 1))
    pair.prefill.step(NOW)
    pair.request("b", 8, PROMPT, 2)
    if join_first:
        refused = pair.prefill.inbox.pop()
        pair.decode.step(NOW)
        move(pair)
        pair.prefill.inbox.append(refused)
    move(pair)
    assert the_abort(pair.prefill, "b").reason is AbortReason.QUEUE_FULL
    told = the_abort(pair.decode, "b")
    assert told.reason is AbortReason.QUEUE_FULL
    assert told.via is AbortVia.PEER
    assert 8 not in [room.room for room in pair.prefill.core.rooms.open_rooms()]


@pytest.mark.parametrize("is_up", [False, True])
def test_a_full_queue_at_decode_is_told_to_prefill(is_up: bool) -> None:
    pair = Pair(decode_pages=6, max_queued_requests=1)
    if is_up:
        pair.request("warm", 5, PROMPT, 2)
        move(pair, rounds=8)
        assert pair.decode.answers("warm")
    for room in (1, 2, 3):  # two get memory once the pair is up, the third waits
        pair.decode.inbox.append(decode_request(pair, f"r{room}", room))
        pair.decode.step(NOW)
    pair.request("b", 8, PROMPT, 2)
    pair.decode.step(NOW)
    assert the_abort(pair.decode, "b").reason is AbortReason.QUEUE_FULL
    move(pair)
    told = the_abort(pair.prefill, "b")
    assert told.reason is AbortReason.QUEUE_FULL
    assert told.via is AbortVia.PEER


def test_a_refused_request_leaves_the_room_of_another_alone() -> None:
    pair = Pair(max_queued_requests=1)
    pair.request("a", 7, PROMPT, 2)
    pair.prefill.step(NOW)
    pair.prefill.inbox.append(decode_request(pair, "thief", 7))
    pair.prefill.step(NOW)
    assert the_abort(pair.prefill, "thief").reason is AbortReason.QUEUE_FULL
    assert not pair.prefill.answers("a")
    pair.settle()
    assert len(pair.decode.tokens("a")) == 2


def test_a_queue_limit_of_one_lets_one_wait() -> None:
    """Prefill counted the newcomer itself, so a limit of N let N - 1 wait."""
    pair = Pair(max_queued_requests=1)
    pair.prefill.inbox.append(decode_request(pair, "a", 7))
    pair.prefill.step(NOW)
    assert not pair.prefill.answers("a")
    pair.prefill.inbox.append(decode_request(pair, "b", 8))
    pair.prefill.step(NOW)
    assert the_abort(pair.prefill, "b").reason is AbortReason.QUEUE_FULL


class Rendezvous:
    """Answers every question at once, and counts them."""

    def __init__(self) -> None:
        self.num_asked = 0
        self._has_answer = False

    def ask(self) -> None:
        self.num_asked += 1
        self._has_answer = True

    def answer(self) -> Route | None:
        had, self._has_answer = self._has_answer, False
        route = Route(
            worker_name="p0",
            incarnation="p0.1",
            control_host="p0",
            control_port=2,
            page_size=4,
            fingerprint="sim",
        )
        return route if had else None


def test_a_decode_that_greets_in_vain_asks_the_rendezvous_ten_times_a_second_at_most() -> None:
    """It asked at every tick of the I/O thread, each time over a connection and a thread of its own."""
    clock = VirtualClock()
    wire = Wire(MS_NS, 1)
    network = Network(clock, {"control": wire, "kv": wire})
    rendezvous = Rendezvous()
    links = DecodeLinks(
        Identity(
            worker_name="d0",
            incarnation="d0.1",
            fingerprint="sim",
            page_bytes=4,
            dead_after_ns=SECOND_NS,
        ),
        "d0:3",
        AddressMap({}),
        lambda _: None,
        LoopPulse(),
        Sockets(network).context("d0", lambda _: None).as_zmq(),
        lambda _: rendezvous,
    )
    links.connect(Connect(peer="p0:1"))  # nobody listens at p0:2
    for tick in range(300):
        links.tick(clock.now_ns + tick * 10 * MS_NS)
    assert 3 <= rendezvous.num_asked <= 30
