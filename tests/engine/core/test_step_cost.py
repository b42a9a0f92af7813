"""A step and an abort cost what changes, not what waits (figures: ``python -m bench.step_cost``).

Ratios of CPU times within one run, with a wide margin: a look at all who wait would cost 30 times as much.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from bench.waiting_room import WaitingRoom
from engine.core.peer import Inbound, PeerSaid

FEW, MANY = 10, 20_000
NUM_ABORTS = 200
MARGIN = 5


def cpu_ns(act: Callable[[], object]) -> int:
    began_ns = time.thread_time_ns()
    act()
    return time.thread_time_ns() - began_ns


def many_times(step: Callable[[], object]) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(50):
            step()

    return repeat


@pytest.mark.parametrize("bootstrapped", [True, False])
def test_a_step_costs_the_same_whoever_waits(bootstrapped: bool) -> None:
    rooms = [WaitingRoom(count, bootstrapped=bootstrapped) for count in (FEW, MANY)]
    for act in (WaitingRoom.abort_checks, WaitingRoom.compute):
        best = [float("inf"), float("inf")]
        for _ in range(8):
            for index, room in enumerate(rooms):
                took_ns = cpu_ns(many_times(partial(act, room)))
                best[index] = min(best[index], took_ns)
        assert best[1] < MARGIN * best[0], (act.__name__, best)


@pytest.mark.parametrize("bootstrapped", [True, False])
def test_an_abort_costs_the_same_whoever_else_waits(bootstrapped: bool) -> None:
    took_ns = []
    for count in (NUM_ABORTS, MANY):
        room = WaitingRoom(count, bootstrapped=bootstrapped)
        aborts = room.aborts(range(count, count - NUM_ABORTS, -1))  # from the end of the queue
        took_ns.append(cpu_ns(partial(abort, room, aborts)))
        assert sum(room.core.queues().values()) == 1 + count - NUM_ABORTS
    assert took_ns[1] < MARGIN * took_ns[0], took_ns


def abort(room: WaitingRoom, aborts: list[Inbound]) -> None:
    room.recv(aborts)
    room.abort_checks()


def test_questions_about_many_rooms_are_spread_over_the_steps() -> None:
    """They all fall due at once; a step of 10 ms takes as many as it has time for, and none is left out."""
    room = WaitingRoom(MANY, bootstrapped=True)
    asked = set()
    most = 0
    for step in range(300):
        room.now_ns += 10_000_000
        room.abort_checks()
        answers = room.answers(room.core.take_effects())
        most = max(most, len(answers))
        if step < 200:
            asked |= {said.message.room for said in answers if isinstance(said, PeerSaid)}
        room.recv(answers)
    assert 0 < most <= 520
    assert len(asked) == MANY + 1
