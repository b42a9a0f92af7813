"""The two abort paths, one incident a test."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.codes import AbortReason, AbortVia, DisaggregationMode, KVPoll, Stage
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortInfo, AbortReq, ControlReq
from engine.core.peer import KvArrived
from tests.engine.core.twin import (
    PAGE,
    Pair,
    Worker,
    broken_laws,
    expected_tokens,
    make_abort,
    make_config,
    make_request,
)

NOW = SECOND_NS
LONG = tuple(range(1, 6 * PAGE))  # three chunks of two pages, the last one short


def unified(num_pages: int = 24) -> Worker:
    return Worker(DisaggregationMode.UNIFIED, make_config("u", num_pages))


def the_abort(worker: Worker, rid: str) -> AbortInfo:
    (answer,) = worker.answers(rid)
    assert answer.finish is not None
    assert answer.finish.abort is not None
    return answer.finish.abort


def assert_clean(worker: Worker) -> None:
    view = worker.core.ledger_view()
    assert broken_laws(worker.core) == []
    assert view.idle
    assert view.holders == ()
    assert view.rooms_open == 0
    assert all(count.free == count.total for count in view.resources.values())


def until_stage(pair: Pair, worker: Worker, rid: str, stage: Stage) -> None:
    """Move the pair on until ``rid`` stands in ``stage`` at ``worker``."""
    for _ in range(40):
        pair.connect()
        for mover in (pair.decode, pair.prefill):
            if any(req.rid == rid and req.stage is stage for req in worker.core.reqs.values()):
                return
            pair.deliver()
            mover.step(pair.now_ns)
    raise AssertionError(f"{rid} never came to {stage}")


def test_unified_completes_in_chunks() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    while worker.step(NOW):
        pass
    assert worker.tokens("a") == expected_tokens(LONG, 5)
    names = [span.name for span in worker.answers("a")[0].trace.spans]  # type: ignore[union-attr]
    assert names.count("prefill.chunk") == 3
    assert_clean(worker)


@pytest.mark.parametrize("chunk", [0, 1])
def test_abort_in_mid_chunk_is_deferred_to_the_safe_point(chunk: int) -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    for _ in range(chunk):
        worker.step(NOW)
    worker.step(NOW, in_forward=[make_abort("a", NOW)])
    assert worker.answers("a") == []
    assert worker.core.pools.kv_pages.num_free < 24, "released before the safe point"
    worker.step(NOW)
    info = the_abort(worker, "a")
    assert (info.stage, info.reason) == (Stage.MID_CHUNK, AbortReason.CLIENT_ABORT)
    assert worker.tokens("a") == []
    assert_clean(worker)


def test_abort_in_the_last_chunk_yields_no_token() -> None:
    """sglang#34149: the client saw one token and then the abort."""
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    worker.step(NOW)
    worker.step(NOW, in_forward=[make_abort("a", NOW)])
    worker.step(NOW)
    assert the_abort(worker, "a").stage is Stage.LAST_CHUNK
    assert worker.tokens("a") == []
    assert_clean(worker)


def test_abort_while_running_yields_no_more_token() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, (1, 2, 3), 9, NOW))
    worker.step(NOW)
    worker.step(NOW)
    worker.step(NOW, in_forward=[make_abort("a", NOW)])
    worker.step(NOW)
    assert worker.tokens("a") == expected_tokens((1, 2, 3), 2)
    assert the_abort(worker, "a").stage is Stage.RUNNING
    assert_clean(worker)


def test_abort_works_while_paused() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    worker.inbox.append(ControlReq(id=1, op="pause"))
    worker.inbox.append(make_abort("a", NOW))
    worker.step(NOW)
    assert the_abort(worker, "a").stage is Stage.MID_CHUNK
    assert_clean(worker)


def test_freed_pages_serve_the_next_request() -> None:
    """The pool holds one request only, so the second gets exactly the freed pages."""
    worker = unified(num_pages=8)
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    worker.inbox.append(make_request("b", None, LONG[::-1], 5, NOW))
    worker.step(NOW, in_forward=[make_abort("a", NOW)])
    while worker.step(NOW):
        pass
    assert worker.tokens("b") == expected_tokens(LONG[::-1], 5)
    assert_clean(worker)


def test_first_reason_wins_and_there_is_one_answer() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    first = make_abort("a", NOW)
    second = AbortReq(
        rid="a", reason=AbortReason.CLIENT_DISCONNECT, origin=first.origin, received_ns=NOW
    )
    worker.inbox.extend([first, second, first])
    worker.step(NOW)
    worker.inbox.append(second)
    worker.step(NOW)
    assert the_abort(worker, "a").reason is AbortReason.CLIENT_ABORT


def test_rid_is_matched_exactly_unless_prefix() -> None:
    """sglang: abort of "x_1" also killed "x_10"."""
    worker = unified(num_pages=64)
    for rid in ("x_1", "x_10", "y"):
        worker.inbox.append(make_request(rid, None, LONG, 5, NOW))
    worker.inbox.append(make_abort("x_1", NOW))
    worker.step(NOW)
    assert [len(worker.answers(rid)) for rid in ("x_1", "x_10", "y")] == [1, 0, 0]
    prefix = AbortReq(
        rid="x",
        prefix=True,
        reason=AbortReason.CLIENT_ABORT,
        origin=make_abort("", NOW).origin,
        received_ns=NOW,
    )
    worker.inbox.append(prefix)
    worker.step(NOW)
    assert [len(worker.answers(rid)) for rid in ("x_10", "y")] == [1, 0]


def test_same_rid_in_the_same_step() -> None:
    worker = unified()
    worker.inbox.extend(
        [
            make_request("a", None, LONG, 5, NOW),
            make_abort("a", NOW),
        ]
    )
    worker.step(NOW)
    worker.inbox.append(make_request("a", None, (5, 6), 2, NOW))
    while worker.step(NOW):
        pass
    assert worker.tokens("a") == expected_tokens((5, 6), 2)
    assert len(worker.answers("a")) == 2
    assert_clean(worker)


def test_too_long_a_prompt_is_answered_at_once() -> None:
    worker = unified(num_pages=4)
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    worker.step(NOW)
    assert the_abort(worker, "a").reason is AbortReason.INPUT_TOO_LONG


def test_pair_decodes_what_unified_decodes() -> None:
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 6)
    for worker in pair.workers:
        assert_clean(worker)


@pytest.mark.parametrize("stage", [Stage.BOOTSTRAP, Stage.WAITING, Stage.MID_CHUNK])
def test_prefill_abort_is_told_to_decode(stage: Stage) -> None:
    """sglang#28651: decode held its slots for 300 s each."""
    pair = Pair(num_staging_pages=2)
    if stage is Stage.WAITING:  # someone else sits in the chunk slot
        pair.request("z", 6, LONG, 2)
        until_stage(pair, pair.prefill, "z", Stage.MID_CHUNK)
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", stage)
    pair.connect()
    pair.deliver()
    pair.prefill.inbox.append(make_abort("a", pair.now_ns))
    pair.settle()
    assert the_abort(pair.prefill, "a").stage is stage
    told = the_abort(pair.decode, "a")
    assert (told.reason, told.via) == (AbortReason.CLIENT_ABORT, AbortVia.PEER)
    for worker in pair.workers:
        assert_clean(worker)


def test_abort_in_transfer_overtakes_the_pages() -> None:
    """The control link is ahead of the kv link: late pages of an aborted room are dropped."""
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.TRANSFER)
    held = [sent for sent in pair.prefill.sent if isinstance(sent, tuple)]
    pair.prefill.sent.clear()
    pair.prefill.inbox.append(make_abort("a", pair.now_ns))
    pair.prefill.step(pair.now_ns)
    pair.prefill.sent.extend(held)
    pair.settle()
    assert the_abort(pair.prefill, "a").stage is Stage.TRANSFER
    assert the_abort(pair.decode, "a").via is AbortVia.PEER
    assert pair.decode_core.num_stale_frames > 0
    for worker in pair.workers:
        assert_clean(worker)


@pytest.mark.parametrize("stage", [Stage.PREALLOC, Stage.DECODE_TRANSFER])
def test_decode_abort_is_told_to_prefill(stage: Stage) -> None:
    pair = Pair(decode_pages=8)
    if stage is Stage.PREALLOC:
        pair.request("z", 6, LONG, 6)
        until_stage(pair, pair.decode, "z", Stage.DECODE_TRANSFER)
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.decode, "a", stage)
    pair.decode.inbox.append(make_abort("a", pair.now_ns))
    pair.settle()
    told = the_abort(pair.prefill, "a")
    assert (told.reason, told.via) == (AbortReason.CLIENT_ABORT, AbortVia.PEER)
    for worker in pair.workers:
        assert_clean(worker)


def test_decode_abort_before_prefill_knows_the_room() -> None:
    """SGLang drops an ABORT for an unknown room; the prefill half then waits its whole timeout."""
    pair = Pair()
    pair.request("z", 6, (1, 2), 1)
    pair.settle()
    late = make_request("a", 7, LONG, 6, pair.now_ns)
    pair.decode.inbox.append(late)
    pair.decode.step(pair.now_ns)
    pair.decode.inbox.append(make_abort("a", pair.now_ns))
    pair.decode.step(pair.now_ns)
    pair.deliver()
    pair.prefill.step(pair.now_ns)
    pair.prefill.inbox.append(late)
    pair.prefill.step(pair.now_ns)
    assert the_abort(pair.prefill, "a").via is AbortVia.PEER
    pair.settle()
    for worker in pair.workers:
        assert_clean(worker)


def test_decode_abort_before_the_halves_have_met() -> None:
    """Prefill has the request, and hears of the attempt for the first time by its abort."""
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    began_ns = pair.now_ns
    pair.prefill.step(pair.now_ns)
    pair.decode.step(pair.now_ns)
    pair.decode.inbox.append(make_abort("a", pair.now_ns))
    pair.settle()
    told = the_abort(pair.prefill, "a")
    assert (told.reason, told.via) == (AbortReason.CLIENT_ABORT, AbortVia.PEER)
    assert told.released_ns - began_ns < SECOND_NS
    for worker in pair.workers:
        assert_clean(worker)


def test_lost_peer_ends_the_active_chunk() -> None:
    """sglang: after its bootstrap the active chunk is not polled, so chunks are computed for nobody."""
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    pair.lose_session()
    for worker in pair.workers:
        worker.step(pair.now_ns)
    assert the_abort(pair.prefill, "a").reason is AbortReason.PEER_DEAD
    assert the_abort(pair.prefill, "a").stage is Stage.MID_CHUNK
    assert the_abort(pair.decode, "a").reason is AbortReason.PEER_DEAD
    for worker in pair.workers:
        assert_clean(worker)


def test_pair_serves_again_after_a_lost_session() -> None:
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.decode, "a", Stage.DECODE_TRANSFER)
    pair.is_cut = True
    pair.lose_session()
    pair.request("b", 8, LONG[::-1], 6)
    for worker in pair.workers:
        worker.step(pair.now_ns)
    pair.settle()
    assert pair.decode.tokens("b") == expected_tokens(LONG[::-1], 6)
    for worker in pair.workers:
        assert_clean(worker)


def test_failed_is_absorbing() -> None:
    """sglang#24539: a late frame revived a Failed room."""
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    rooms = pair.prefill.core.rooms
    pair.lose_session()
    pair.prefill.recv(pair.now_ns)
    rooms.update_status(7, KVPoll.Success, pair.now_ns)
    room = rooms.get(7)
    assert room is not None
    assert room.state is KVPoll.Failed


def test_prefill_half_alone_times_out() -> None:
    pair = Pair()
    pair.prefill.inbox.append(make_request("a", 7, LONG, 6, pair.now_ns))
    pair.settle()
    assert the_abort(pair.prefill, "a").reason is AbortReason.BOOTSTRAP_TIMEOUT
    assert_clean(pair.prefill)


def test_damaged_pages_fail_the_transfer_on_both_sides() -> None:
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    pair.prefill.step(pair.now_ns)
    pair.deliver()
    arrived = pair.decode.inbox.pop()
    assert isinstance(arrived, KvArrived)
    pair.decode.inbox.append(msgspec.structs.replace(arrived, intact=False))
    pair.settle()
    assert the_abort(pair.decode, "a").reason is AbortReason.TRANSFER_FAILED
    assert the_abort(pair.prefill, "a").reason is AbortReason.TRANSFER_FAILED
    for worker in pair.workers:
        assert_clean(worker)
