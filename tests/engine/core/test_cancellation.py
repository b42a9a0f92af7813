"""A running forward stops when nobody in its batch is alive, and that is never progress."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.cancellation import survivors
from engine.core.codes import AbortOrigin, AbortReason, DisaggregationMode, Stage
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortReq, ControlReq
from engine.core.peer import AbortRoom, Attempt, Inbound, Join, PeerLost, PeerSaid
from engine.core.schedule_batch import BatchMember
from tests.engine.core.test_abort_paths import LONG, assert_clean, the_abort, unified, until_stage
from tests.engine.core.twin import Pair, Worker, expected_tokens, make_abort, make_request

NOW = SECOND_NS
MEMBER = BatchMember(rid="a", room=7, peer="d", attempt=Attempt("d-1", 3))


def abort_room(attempt: Attempt | None, room: int = 7, peer: str = "d") -> PeerSaid:
    message = AbortRoom(
        room=room,
        attempt=attempt,
        reason=AbortReason.CLIENT_ABORT,
        origin=AbortOrigin.CLIENT,
        message="",
    )
    return PeerSaid(peer=peer, message=message)


def abort_of(rid: str, **changes: object) -> AbortReq:
    return msgspec.structs.replace(make_abort(rid, NOW), **changes)


def lost(peer: str) -> PeerLost:
    return PeerLost(peer=peer, reason=AbortReason.PEER_DEAD, message="no beat")


@pytest.mark.parametrize(
    "message",
    [
        abort_of("a"),
        abort_of("a", bootstrap_room=7),
        abort_of("", abort_all=True),
        abort_of("", prefix=True),
        lost("d"),
        abort_room(None),
        abort_room(Attempt("d-1", 3)),
    ],
)
def test_what_ends_a_member(message: Inbound) -> None:
    assert survivors([MEMBER], [message], NOW) == ()


@pytest.mark.parametrize(
    "message",
    [
        abort_of("a1"),
        abort_of("a", bootstrap_room=8),
        lost("e"),
        abort_room(None, room=8),
        abort_room(None, peer="e"),
        abort_room(Attempt("d-1", 2)),
        PeerSaid(peer="d", message=Join(room=7, attempt=Attempt("d-1", 4), rid="a")),
        ControlReq(id=1, op="pause"),
    ],
)
def test_what_does_not(message: Inbound) -> None:
    assert survivors([MEMBER], [message], NOW) == (MEMBER,)


def test_a_request_that_has_left_its_room_outlives_its_peer() -> None:
    running = BatchMember(rid="a", room=7)
    assert survivors([running], [lost("d"), abort_room(None)], NOW) == (running,)


def test_a_deadline_ends_a_member_when_it_is_reached() -> None:
    member = BatchMember(rid="a", room=None, deadline_ns=NOW)
    assert survivors([member], [], NOW - 1) == (member,)
    assert survivors([member], [], NOW) == ()


@pytest.mark.parametrize(("steps", "stage"), [(0, Stage.MID_CHUNK), (2, Stage.LAST_CHUNK)])
def test_cancelled_forward_of_an_aborted_request(steps: int, stage: Stage) -> None:
    """The layers that ran are thrown away; the next user of the pages gets the right tokens."""
    worker = unified(num_pages=8)
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    for _ in range(steps):
        worker.step(NOW)
    worker.step(NOW, in_forward=[make_abort("a", NOW)])
    assert worker.core.num_cancelled_forwards == 1
    assert worker.answers("a") == [], "released before the safe point"
    worker.inbox.append(make_request("b", None, LONG[::-1], 5, NOW))
    while worker.step(NOW):
        pass
    assert the_abort(worker, "a").stage is stage
    assert worker.tokens("a") == []
    assert worker.tokens("b") == expected_tokens(LONG[::-1], 5)
    assert_clean(worker)


def test_a_batch_shared_with_the_living_runs_to_its_end() -> None:
    worker = unified()
    worker.inbox.append(make_request("alive", None, (1, 2), 9, NOW))
    worker.step(NOW)
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW, in_forward=[make_abort("a", NOW)])
    assert worker.core.num_cancelled_forwards == 0
    while worker.step(NOW):
        pass
    assert worker.tokens("alive") == expected_tokens((1, 2), 9)
    assert_clean(worker)


def test_everybody_in_a_mixed_batch_is_aborted() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, (1, 2), 9, NOW))
    worker.step(NOW)
    worker.inbox.append(make_request("b", None, LONG, 5, NOW))
    worker.step(NOW, in_forward=[make_abort("a", NOW), make_abort("b", NOW)])
    assert worker.core.num_cancelled_forwards == 1
    worker.step(NOW)
    assert the_abort(worker, "a").stage is Stage.RUNNING
    assert the_abort(worker, "b").stage is Stage.MID_CHUNK
    assert worker.tokens("a") == expected_tokens((1, 2), 1)
    assert_clean(worker)


@pytest.mark.parametrize("step", range(8))
def test_cancelled_in_vain_loses_nothing(step: int) -> None:
    """Chunks, two last chunks in one batch and decoding: each is cut once, with everybody alive."""
    worker = unified(num_pages=40)
    prompts = {"a": LONG, "b": (5, 6, 7), "c": (9, 8)}
    for rid, prompt in prompts.items():
        worker.inbox.append(make_request(rid, None, prompt, 4, NOW))
    for number in range(30):
        worker.step(NOW, cancel=number == step)
    assert worker.core.num_cancelled_forwards == (step < 7)
    for rid, prompt in prompts.items():
        assert worker.tokens(rid) == expected_tokens(prompt, 4)
    assert_clean(worker)


def test_cancelled_last_chunk_waits_through_a_pause() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, (1, 2), 3, NOW))
    worker.step(NOW, cancel=True)
    worker.inbox.append(ControlReq(id=1, op="pause"))
    worker.step(NOW)
    assert worker.core.queues()["chunked"] == 1
    worker.inbox.append(ControlReq(id=2, op="continue"))
    while worker.step(NOW):
        pass
    assert worker.tokens("a") == expected_tokens((1, 2), 3)
    assert_clean(worker)


def test_abort_of_a_last_chunk_that_waits_to_run_again() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, (1, 2), 3, NOW))
    worker.step(NOW, cancel=True)
    worker.inbox.append(make_abort("a", NOW))
    assert not worker.step(NOW)
    assert the_abort(worker, "a").stage is Stage.LAST_CHUNK
    assert_clean(worker)


@pytest.mark.parametrize("stage", [Stage.MID_CHUNK, Stage.LAST_CHUNK])
def test_death_of_the_peer_stops_the_forward(stage: Stage) -> None:
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    if stage is Stage.LAST_CHUNK:
        pair.prefill.step(pair.now_ns)
    pair.prefill.step(pair.now_ns, in_forward=[lost("d")])
    assert pair.prefill.core.num_cancelled_forwards == 1
    pair.prefill.step(pair.now_ns)
    info = the_abort(pair.prefill, "a")
    assert (info.reason, info.stage) == (AbortReason.PEER_DEAD, stage)
    pair.lose_session()
    pair.settle()
    for worker in pair.workers:
        assert_clean(worker)


def test_abort_by_the_peer_stops_the_forward() -> None:
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    pair.decode.inbox.append(make_abort("a", pair.now_ns))
    pair.decode.step(pair.now_ns)
    pair.deliver()
    told = list(pair.prefill.inbox)
    pair.prefill.inbox.clear()
    pair.prefill.step(pair.now_ns, in_forward=told)
    assert pair.prefill.core.num_cancelled_forwards == 1
    pair.settle()
    for worker in pair.workers:
        assert_clean(worker)


def test_running_requests_of_decode_outlive_prefill() -> None:
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.decode, "a", Stage.RUNNING)
    gone = PeerLost(peer="p:1", reason=AbortReason.PEER_DEAD, message="no beat")
    pair.decode.step(pair.now_ns, in_forward=[gone])
    assert pair.decode.core.num_cancelled_forwards == 0
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 6)


def test_same_key_in_the_same_step_waits_for_the_older_answer() -> None:
    worker = Worker(DisaggregationMode.UNIFIED, unified().core.config)
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    again = make_request("a", None, (5, 6), 2, NOW)
    worker.step(NOW, in_forward=[make_abort("a", NOW), again])
    while worker.step(NOW):
        pass
    first, second = worker.answers("a")
    assert first.finish is not None
    assert first.finish.abort is not None
    assert second.finish is not None
    assert second.finish.type == "length"
    assert worker.tokens("a") == expected_tokens((5, 6), 2)
    assert_clean(worker)
