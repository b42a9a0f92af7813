"""Polls: agreement of ranks, and failures put in on purpose."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.codes import AbortReason, AbortVia, KVPoll, Stage
from engine.core.gauges import gauges
from engine.core.io_struct import AbortInfo
from engine.core.polling import (
    INJECTED,
    PollFailures,
    poll_and_all_reduce_attn_cp_tp_group,
)
from tests.engine.core.test_abort_paths import LONG, assert_clean
from tests.engine.core.twin import Pair, Worker, expected_tokens

STATES = st.sampled_from(KVPoll)
NUM_REQUESTS = 400


@given(st.lists(STATES))
def test_one_rank_agrees_with_itself(states: list[KVPoll]) -> None:
    assert poll_and_all_reduce_attn_cp_tp_group([states]) == states


@given(st.lists(st.tuples(STATES, STATES, STATES)))
def test_anybodys_failed_wins_and_nobody_runs_ahead(rooms: list[tuple[KVPoll, ...]]) -> None:
    ranks = [[states[rank] for states in rooms] for rank in range(3)]
    agreed = poll_and_all_reduce_attn_cp_tp_group(ranks)
    for states, result in zip(rooms, agreed, strict=True):
        assert result in states
        assert all(result <= state for state in states)
        assert (result is KVPoll.Failed) is (KVPoll.Failed in states)


def test_ranks_that_poll_other_rooms_are_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        poll_and_all_reduce_attn_cp_tp_group([[KVPoll.Success, KVPoll.Success], [KVPoll.Success]])


def failing_pair(probability: float, attempts: int) -> Pair:
    pair = Pair(
        prefill_pages=64,
        decode_pages=128,
        max_running_requests=6,
        optimistic_prefill_attempts=attempts,
    )
    for seed, worker in enumerate(pair.workers):
        worker.core.poll_failures = PollFailures(probability, random.Random(seed).random)
    return pair


def injected(worker: Worker) -> list[AbortInfo]:
    """Aborts that this half decided because of a poll."""
    aborts = [out.finish.abort for out in worker.outs if out.finish is not None]
    return [a for a in aborts if a and a.via is AbortVia.LOCAL and INJECTED in a.message]


@pytest.mark.parametrize("attempts", [0, 1])
def test_failed_polls_end_their_requests_and_nothing_else(attempts: int) -> None:
    """Everybody is answered, each fired failure is one failed room, counts come back to the baseline."""
    pair = failing_pair(0.05, attempts)
    for first in range(0, NUM_REQUESTS, 8):
        for number in range(first, first + 8):
            pair.request(f"r{number}", 1000 + number, LONG, 3)
        pair.settle()
    for worker in pair.workers:
        fired = worker.core.poll_failures.num_fired
        aborts = injected(worker)
        assert 0 < fired == len(aborts)
        assert {abort.reason for abort in aborts} == {AbortReason.TRANSFER_FAILED}
        assert worker.core.ledger_view().poll_failures_injected == fired
        assert gauges(worker.core)["poll_failures_injected_total"] == fired
        assert_clean(worker)
    ends = Counter[str]()
    for number in range(NUM_REQUESTS):
        rid = f"r{number}"
        (answer,) = pair.decode.answers(rid)
        (other,) = pair.prefill.answers(rid)
        assert answer.finish is not None
        assert other.finish is not None
        ends[answer.finish.type] += 1
        if answer.finish.abort is None:
            assert pair.decode.tokens(rid) == expected_tokens(LONG, 3)
        else:
            assert other.finish.abort is not None
            assert AbortReason.TRANSFER_FAILED is answer.finish.abort.reason
    num_fired = sum(worker.core.poll_failures.num_fired for worker in pair.workers)
    assert ends["abort"] <= num_fired < NUM_REQUESTS // 2


def test_every_place_can_be_hit() -> None:
    """The waiting queue and the transfer; with chance 1 the very first poll."""
    pair = failing_pair(0.2, 0)
    for first in range(0, NUM_REQUESTS, 8):
        for number in range(first, first + 8):
            pair.request(f"r{number}", 1000 + number, LONG, 3)
        pair.settle()
    stages = {abort.stage for worker in pair.workers for abort in injected(worker)}
    assert {Stage.BOOTSTRAP, Stage.MID_CHUNK, Stage.DECODE_TRANSFER} <= stages


def test_the_same_seed_fails_the_same_polls() -> None:
    runs = []
    for _ in range(2):
        pair = failing_pair(0.1, 0)
        for number in range(40):
            pair.request(f"r{number}", 1000 + number, LONG, 3)
            pair.settle()
        runs.append([[a.stage for a in injected(worker)] for worker in pair.workers])
    assert runs[0] == runs[1]
    assert runs[0][0] or runs[0][1]


def test_without_a_chance_nothing_is_drawn() -> None:
    def draw() -> float:
        raise AssertionError("drawn")

    assert not PollFailures(0.0, draw).fires()
