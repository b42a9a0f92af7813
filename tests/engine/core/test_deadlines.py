"""Deadlines and limits, in every role: the same mark and safe point as any abort."""

from __future__ import annotations

import pytest

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, DisaggregationMode, Stage
from engine.core.config import SECOND_NS
from engine.core.deadlines import SLACK
from engine.core.io_struct import ControlReq
from tests.engine.core.test_abort_paths import LONG, assert_clean, the_abort, until_stage
from tests.engine.core.twin import (
    Pair,
    Worker,
    expected_tokens,
    make_abort,
    make_config,
    make_request,
)

NOW = SECOND_NS
UNIFIED = DisaggregationMode.UNIFIED


def unified(**changes: int) -> Worker:
    return Worker(UNIFIED, make_config("u", 64, **changes))


def codes(worker: Worker, rid: str) -> tuple[AbortReason, AbortOrigin, AbortVia, Stage]:
    info = the_abort(worker, rid)
    return info.reason, info.origin, info.via, info.stage


@pytest.mark.parametrize(("steps", "stage"), [(0, Stage.MID_CHUNK), (3, Stage.RUNNING)])
def test_deadline_of_the_client_while_it_computes(steps: int, stage: Stage) -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 9, NOW, deadline_ns=NOW + 5))
    for _ in range(steps + 1):
        worker.step(NOW)
    assert worker.answers("a") == []
    worker.step(NOW + 5)
    assert codes(worker, "a") == (AbortReason.DEADLINE, AbortOrigin.CLIENT, AbortVia.LOCAL, stage)
    assert_clean(worker)


def test_deadline_that_passes_during_the_forward_stops_it() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 9, NOW, deadline_ns=NOW + 5))
    worker.step(NOW)
    batch = worker.core.get_next_batch_to_run(NOW + 4)
    assert batch is not None
    assert batch.members[0].deadline_ns == NOW + 5


def test_deadline_that_has_passed_already_runs_nothing() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 9, NOW, deadline_ns=NOW + 1))
    assert not worker.step(NOW + 1)
    assert the_abort(worker, "a").stage is Stage.WAITING
    assert_clean(worker)


def test_waiting_timeout_counts_until_the_first_chunk() -> None:
    worker = unified(waiting_timeout_ns=10, max_running_requests=1)
    worker.inbox.append(make_request("a", None, LONG, 9, NOW))
    worker.inbox.append(make_request("b", None, LONG, 9, NOW))
    worker.step(NOW)
    worker.step(NOW + 10)
    assert codes(worker, "b") == (
        AbortReason.DEADLINE,
        AbortOrigin.SERVER,
        AbortVia.LOCAL,
        Stage.WAITING,
    )
    while worker.step(NOW + 100):
        pass
    assert worker.tokens("a") == expected_tokens(LONG, 9)
    assert_clean(worker)


def test_running_timeout_counts_from_the_first_chunk() -> None:
    worker = unified(running_timeout_ns=10, max_running_requests=1)
    for rid in ("a", "b"):
        worker.inbox.append(make_request(rid, None, LONG, 90, NOW))
    worker.step(NOW)
    worker.step(NOW + 10)
    assert codes(worker, "a")[:2] == (AbortReason.DEADLINE, AbortOrigin.SERVER)
    worker.step(NOW + 19)
    assert worker.answers("b") == []
    worker.step(NOW + 20)
    assert the_abort(worker, "b").stage is Stage.MID_CHUNK
    assert_clean(worker)


def test_deadlines_run_while_paused() -> None:
    worker = unified(waiting_timeout_ns=10)
    worker.inbox.append(ControlReq(id=1, op="pause"))
    worker.inbox.append(make_request("a", None, LONG, 9, NOW))
    worker.step(NOW)
    worker.step(NOW + 10)
    assert the_abort(worker, "a").reason is AbortReason.DEADLINE
    assert_clean(worker)


def test_the_first_reason_wins_over_the_deadline() -> None:
    worker = unified()
    worker.inbox.append(make_request("a", None, LONG, 9, NOW, deadline_ns=NOW + 5))
    worker.step(NOW)
    worker.inbox.append(make_abort("a", NOW + 4))
    worker.step(NOW + 6)
    assert the_abort(worker, "a").reason is AbortReason.CLIENT_ABORT


@pytest.mark.parametrize(
    ("half", "stage"),
    [
        ("p", Stage.BOOTSTRAP),
        ("p", Stage.WAITING),
        ("d", Stage.PREALLOC),
        ("d", Stage.DECODE_TRANSFER),
    ],
)
def test_waiting_timeout_in_each_half(half: str, stage: Stage) -> None:
    """SGLang's timeouts do nothing on the nodes of a pair."""
    pages = 24 if stage is Stage.WAITING else 8
    pair = Pair(decode_pages=pages, waiting_timeout_ns=SECOND_NS // 2)
    worker, other = (pair.prefill, pair.decode) if half == "p" else (pair.decode, pair.prefill)
    if stage in (Stage.WAITING, Stage.PREALLOC):  # somebody else has what it needs
        pair.request("z", 6, LONG, 2)
        until_stage(pair, worker, "z", Stage.MID_CHUNK if half == "p" else Stage.DECODE_TRANSFER)
    pair.request("a", 7, (4, 5, 6), 6)
    until_stage(pair, worker, "a", stage)
    pair.now_ns += SECOND_NS // 2
    worker.step(pair.now_ns)
    assert codes(worker, "a") == (
        AbortReason.DEADLINE,
        AbortOrigin.SERVER,
        AbortVia.LOCAL,
        stage,
    )
    pair.settle()
    assert the_abort(other, "a").reason is AbortReason.DEADLINE
    for each in pair.workers:
        assert_clean(each)


@pytest.mark.parametrize(
    ("half", "stage"),
    [("p", Stage.MID_CHUNK), ("p", Stage.TRANSFER), ("d", Stage.RUNNING)],
)
def test_running_timeout_in_each_half(half: str, stage: Stage) -> None:
    pair = Pair(running_timeout_ns=SECOND_NS)
    worker = pair.prefill if half == "p" else pair.decode
    pair.request("a", 7, LONG, 60)
    until_stage(pair, worker, "a", stage)
    pair.now_ns += SECOND_NS
    worker.step(pair.now_ns)
    assert codes(worker, "a") == (
        AbortReason.DEADLINE,
        AbortOrigin.SERVER,
        AbortVia.LOCAL,
        stage,
    )
    pair.settle()
    for each in pair.workers:
        assert_clean(each)


@pytest.mark.parametrize("mode", list(DisaggregationMode))
def test_queue_limit_refuses_the_one_too_many(mode: DisaggregationMode) -> None:
    """Prefill counted the newcomer itself and refused one too early."""
    worker = Worker(mode, make_config("w", 64, max_queued_requests=2))
    for number, rid in enumerate(("a", "b", "c")):
        room = None if mode is UNIFIED else number
        worker.inbox.append(make_request(rid, room, LONG, 4, NOW))
    worker.step(NOW)
    assert [len(worker.answers(rid)) for rid in ("a", "b", "c")] == [0, 0, 1]
    assert codes(worker, "c") == (
        AbortReason.QUEUE_FULL,
        AbortOrigin.SERVER,
        AbortVia.LOCAL,
        Stage.QUEUE,
    )


@pytest.mark.parametrize("is_up", [False, True])
@pytest.mark.parametrize("half", ["p", "d"])
@pytest.mark.parametrize("reason", [AbortReason.QUEUE_FULL, AbortReason.INPUT_TOO_LONG])
def test_the_other_half_of_a_refused_request_hears_of_it(
    half: str, reason: AbortReason, is_up: bool
) -> None:
    """It used to wait for its bootstrap timeout."""
    pair = Pair(prefill_pages=24, decode_pages=24)
    if is_up:
        pair.request("y", 5, (1, 2), 1)
        pair.settle()
    worker = pair.prefill if half == "p" else pair.decode
    if reason is AbortReason.QUEUE_FULL:
        worker.core.config = make_config(half, 24, max_queued_requests=1)
    else:
        worker.core.config = make_config(half, 2)
    other = pair.decode if half == "p" else pair.prefill
    began_ns = pair.now_ns
    if reason is AbortReason.QUEUE_FULL:
        worker.inbox.append(make_request("z", 6, LONG, 2, pair.now_ns))
        worker.recv(pair.now_ns)
        worker.inbox.append(make_abort("z", pair.now_ns))
    worker.inbox.appendleft(make_request("a", 7, LONG, 2, pair.now_ns))
    other.inbox.append(make_request("a", 7, LONG, 2, pair.now_ns))
    pair.settle()
    assert the_abort(worker, "a").reason is reason
    told = the_abort(other, "a")
    assert (told.reason, told.via) == (reason, AbortVia.PEER)
    assert told.released_ns - began_ns < SECOND_NS
    for each in pair.workers:
        assert_clean(each)


def test_entries_of_ended_requests_do_not_pile_up() -> None:
    worker = unified()
    for number in range(10 * SLACK):
        rid = f"r{number}"
        worker.inbox.append(make_request(rid, None, (1, 2), 1, NOW, deadline_ns=NOW + SECOND_NS))
        worker.step(NOW)
    assert len(worker.core.deadlines) <= 2 * SLACK
