"""Bugs that the simulator found, one test each."""

from __future__ import annotations

import pytest

from engine.core.codes import AbortReason, AbortVia
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortInfo
from engine.core.peer import Inbound
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
