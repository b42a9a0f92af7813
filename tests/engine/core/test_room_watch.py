"""`RoomWatch`: due rooms, each once, in slices; memory follows the open rooms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.core.room_watch import LOOK_NS, MIN_LOOKS, SLACK, RoomWatch

FAR = 1_000_000_000_000


@given(st.dictionaries(st.integers(0, 50), st.integers(1, 100)), st.integers(1, 100))
def test_what_is_due_comes_once_and_oldest_first(times: dict[int, int], now_ns: int) -> None:
    watch = RoomWatch()
    for room, at_ns in times.items():
        watch.arm(room, at_ns)
    seen = [room for _ in range(5) for room in watch.pop_due(now_ns)]
    assert seen == sorted((r for r in times if times[r] <= now_ns), key=times.__getitem__)


def test_arming_again_replaces() -> None:
    watch = RoomWatch()
    watch.arm(1, 10)
    watch.arm(1, 20)
    assert watch.pop_due(15) == []
    assert watch.pop_due(20) == [1]
    assert watch.pop_due(30) == []


def test_a_closed_room_never_comes_and_its_successor_does() -> None:
    watch = RoomWatch()
    watch.arm(1, 10)
    watch.forget(1)
    assert watch.pop_due(10) == []
    watch.arm(1, 11)
    assert watch.pop_due(12) == [1]


def test_a_crowd_is_looked_at_in_slices_that_grow_with_the_time_passed() -> None:
    watch = RoomWatch()
    watch.pop_due(FAR)
    for room in range(1000):
        watch.arm(room, FAR + room)
    assert watch.pop_due(FAR + 1000) == list(range(MIN_LOOKS))
    assert len(watch.pop_due(FAR + 1000 + 100 * LOOK_NS)) == MIN_LOOKS + 100
    assert len(watch.pop_due(2 * FAR)) == 1000 - 100 - 2 * MIN_LOOKS


def test_memory_follows_the_open_rooms() -> None:
    watch = RoomWatch()
    for room in range(10_000):
        watch.arm(room, FAR)
        if room >= 10:
            watch.forget(room - 10)
    assert len(watch) <= 2 * 11 + SLACK + 1
