"""Holes that SGLang has (or had) around its deferred abort, each a test of its name."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.chunking import next_chunks
from engine.core.codes import AbortReason, AbortVia, DisaggregationMode, Stage
from engine.core.config import SECOND_NS
from engine.core.peer import PeerLost
from engine.core.schedule_batch import ScheduleBatch
from tests.engine.core.test_abort_paths import (
    LONG,
    assert_clean,
    the_abort,
    unified,
    until_stage,
)
from tests.engine.core.twin import (
    Pair,
    Worker,
    expected_tokens,
    make_abort,
    make_config,
    make_request,
)

NOW = SECOND_NS


def test_abort_as_the_request_leaves_the_chunk_slot() -> None:
    """sglang#35255: the mark stood for a request that was no longer the chunked one, and was lost."""
    worker = unified()
    worker.is_layered = False
    worker.inbox.append(make_request("a", None, LONG, 5, NOW))
    worker.step(NOW)
    worker.step(NOW)
    core = worker.core
    core.recv([make_abort("a", NOW)], NOW)
    ((req, item),) = next_chunks(
        core, NOW
    )  # the last chunk begins between the mark and the safe point
    assert core.chunked_req is None
    batch = ScheduleBatch(items=(item,), members=(core.member(req),))
    core.process_batch_result(batch, worker.runner.forward([item]), NOW)
    worker.step(NOW)
    assert the_abort(worker, "a").reason is AbortReason.CLIENT_ABORT
    assert worker.tokens("a") == []
    assert_clean(worker)


def test_abort_of_the_client_and_of_the_peer_in_one_forward() -> None:
    """Two marks, one for the chunk slot and one for its room: one answer, the first reason."""
    pair = Pair()
    pair.request("a", 7, LONG, 6)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    lost = PeerLost(peer="d", reason=AbortReason.PEER_DEAD, message="no beat")
    pair.prefill.step(pair.now_ns, in_forward=[make_abort("a", pair.now_ns), lost])
    pair.prefill.step(pair.now_ns)
    assert the_abort(pair.prefill, "a").reason is AbortReason.CLIENT_ABORT
    pair.lose_session()
    pair.settle()
    for worker in pair.workers:
        assert_clean(worker)


def test_metadata_slots_do_not_leak_from_the_waiting_queue() -> None:
    """A bootstrapped request that is aborted while it waits gives its slot back, each time."""
    pair = Pair(prefill_pages=64, decode_pages=200, max_running_requests=6)
    slots = pair.prefill.core.pools.metadata_slots
    for number in range(2 * slots.count().total):
        keeper, doomed = f"k{number}", f"a{number}"
        pair.request(keeper, 1000 + number, LONG, 1)
        until_stage(pair, pair.prefill, keeper, Stage.MID_CHUNK)
        pair.request(doomed, 2000 + number, LONG, 1)
        until_stage(pair, pair.prefill, doomed, Stage.WAITING)
        pair.prefill.inbox.append(make_abort(doomed, pair.now_ns))
        pair.settle()
        assert the_abort(pair.prefill, doomed).stage is Stage.WAITING
        assert slots.num_free == slots.count().total
    for worker in pair.workers:
        assert_clean(worker)


def test_no_room_state_is_left_behind_by_a_chunk_abort() -> None:
    """SGLang keeps status, transfer info and failure record of every room aborted in mid-chunk."""
    pair = Pair()
    for room in range(30):
        pair.request(f"r{room}", room, LONG, 2)
        until_stage(pair, pair.prefill, f"r{room}", Stage.MID_CHUNK)
        pair.prefill.inbox.append(make_abort(f"r{room}", pair.now_ns))
        pair.settle()
    for core in (pair.prefill_core, pair.decode_core):
        assert len(core.rooms) == 0
        assert core._by_room == {}
        assert core.rooms.take_changed() == []
        pair.now_ns += 2 * core.config.terminal_keep_ns
        core.check_deadlines(pair.now_ns)
        assert core.rooms.num_terminal == 0, "even the memory of their ends passes"


def test_abort_after_finish_and_of_an_unknown_rid_change_nothing() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, (1, 2), 2, NOW))
    while worker.step(NOW):
        pass
    before = len(worker.outs)
    for rid in ("a", "nobody"):
        assert worker.core.abort_request(make_abort(rid, NOW), NOW) == 0
    assert not worker.step(NOW)
    assert len(worker.outs) == before
    assert_clean(worker)


def test_abort_all_takes_everything_and_the_next_one_runs() -> None:
    worker = unified(num_pages=64)
    rids = [f"r{number}" for number in range(5)]
    for rid in rids:
        worker.inbox.append(make_request(rid, None, LONG, 5, NOW))
    for _ in range(4):
        worker.step(NOW)
    everything = msgspec.structs.replace(make_abort("", NOW), abort_all=True)
    worker.inbox.extend([everything, make_request("next", None, (5, 6), 3, NOW)])
    while worker.step(NOW):
        pass
    assert all(the_abort(worker, rid) for rid in rids)
    assert worker.tokens("next") == expected_tokens((5, 6), 3)
    assert_clean(worker)


@pytest.mark.parametrize("names_room", [False, True])
def test_a_routers_retry_is_another_request(names_room: bool) -> None:
    """The same rid in a new room: an abort by rid hits both, by rid and room the one."""
    pair = Pair(prefill_pages=64, decode_pages=64)
    pair.request("a", 7, LONG, 3)
    until_stage(pair, pair.prefill, "a", Stage.MID_CHUNK)
    pair.request("a", 8, LONG, 3)
    for worker in pair.workers:
        worker.recv(pair.now_ns)
    abort = msgspec.structs.replace(
        make_abort("a", pair.now_ns), bootstrap_room=7 if names_room else None
    )
    pair.prefill.inbox.append(abort)
    pair.settle()
    ends = {out.bootstrap_room: out.finish for out in pair.decode.answers("a")}
    aborted = {room for room, finish in ends.items() if finish and finish.abort}
    assert aborted == ({7} if names_room else {7, 8})
    told = [finish.abort for finish in ends.values() if finish and finish.abort]
    assert {info.via for info in told} == {AbortVia.PEER}
    for worker in pair.workers:
        assert_clean(worker)


def test_retry_in_the_same_step_as_the_abort() -> None:
    worker = Worker(DisaggregationMode.PREFILL, make_config("p"))
    first, again = (make_request("a", room, LONG, 3, NOW) for room in (7, 8))
    worker.inbox.extend([first, make_abort("a", NOW), again])
    worker.step(NOW)
    assert [out.bootstrap_room for out in worker.answers("a")] == [7]
    assert [req.room for req in worker.core.reqs.values()] == [8]
