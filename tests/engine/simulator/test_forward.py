"""A forward in virtual time asks when the real one asks, and stops for nobody's sake only."""

from __future__ import annotations

import msgspec

from engine.core.batch import ForwardItem
from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import AbortReq, SamplingParams
from engine.core.schedule_batch import BatchMember, ScheduleBatch
from engine.simulator.draw import Size, draw_schedule
from engine.simulator.forward import RunningForward
from engine.simulator.runner import NO_TOKEN, HashRunner
from engine.simulator.simulation import simulate

ITEM = ForwardItem(
    rid="a",
    input_ids=(5, 6, 7),
    start=2,
    page_ids=(3, 1),
    wants_token=True,
    sampling_params=SamplingParams(),
)


def make_forward(*members: BatchMember) -> RunningForward:
    batch = ScheduleBatch(items=(ITEM,) * len(members), members=members)
    return RunningForward(batch, [None], started_ns=1000, took_ns=800, ask_every_ns=100)


def make_abort(rid: str) -> AbortReq:
    return AbortReq(
        rid=rid, reason=AbortReason.CLIENT_ABORT, origin=AbortOrigin.CLIENT, received_ns=1
    )


def test_it_asks_at_its_start_and_then_at_every_half_layer() -> None:
    forward = make_forward(BatchMember(rid="a", room=1))
    assert [forward.next_ask_ns(now) for now in (900, 1000, 1001, 1100, 1750)] == [
        1000,
        1000,
        1100,
        1100,
        1800,
    ]


def test_it_stops_when_the_last_member_is_gone() -> None:
    forward = make_forward(BatchMember(rid="a", room=1), BatchMember(rid="b", room=2))
    unread = [make_abort("a")]
    assert not forward.should_stop(unread, 1100)
    assert [member.rid for member in forward.alive] == ["b"]
    assert not forward.should_stop(unread, 1200)
    unread.append(make_abort("b"))
    assert forward.should_stop(unread, 1300)


def test_deadlines_end_members_too() -> None:
    forward = make_forward(BatchMember(rid="a", room=1, deadline_ns=1450))
    assert forward.deadlines_ns() == [1450]
    assert not forward.should_stop([], 1400)
    assert forward.should_stop([], 1500)


def test_what_a_cancelled_forward_wrote_is_worth_nothing() -> None:
    runner = HashRunner(num_pages=4, page_size=4)
    first = runner.forward([ITEM])
    runner.spoil([ITEM])
    assert runner.gather_pages((3, 1)) == bytes([NO_TOKEN]) * 8
    assert runner.forward([ITEM]) == first


def test_cancelled_forwards_run_again_and_answer_the_same() -> None:
    """Every second forward is cancelled with all its members alive."""
    schedule = draw_schedule(3, Size(num_requests=12))
    topology = msgspec.structs.replace(schedule.topology, num_layers=4, num_ranks=1, cancel_every=2)
    outcome = simulate(msgspec.structs.replace(schedule, topology=topology))
    assert outcome.violation is None
    assert outcome.num_cancelled > 20
    assert outcome.num_completed >= 3
