"""Reliable windows over a wire that loses, duplicates and delays nothing in order but anything at all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.transfer.windows import ReceiveWindow, SendWindow

MS = 1_000_000


@settings(max_examples=200, deadline=None)
@given(
    num_frames=st.integers(1, 30),
    losses=st.lists(st.booleans(), max_size=60),
    acks_lost=st.lists(st.booleans(), max_size=60),
    credit=st.integers(1, 200),
)
def test_everything_arrives_once_and_in_order(
    num_frames: int, losses: list[bool], acks_lost: list[bool], credit: int
) -> None:
    out, incoming = SendWindow(credit, 100 * MS), ReceiveWindow()
    arrived: list[int] = []
    for number in range(num_frames):
        out.push((bytes([number]) * (1 + number % 50),))
    loss, ack_loss = iter(losses), iter(acks_lost)
    settled: list[int] = []
    now = 0
    for _ in range(1000):
        now += 150 * MS
        if out.is_overdue(now):
            out.rewind(now)
            out.back_off()
        while (frame := out.peek()) is not None:
            out.sent(now)
            if not next(loss, False) and incoming.accept(frame.seq):
                arrived.append(frame.parts[0][0])
        if not next(ack_loss, False):
            settled += [frame.seq for frame in out.acknowledge(incoming.ack, now)]
            if incoming.has_gap:
                out.rewind(now)
        if not len(out):
            break
    assert arrived == list(range(num_frames))
    assert settled == list(range(1, num_frames + 1))


def test_credit_bounds_what_is_in_flight() -> None:
    out = SendWindow(credit_bytes=100, resend_after_ns=MS)
    for _ in range(5):
        out.push((bytes(40),))
    sent = 0
    while out.peek() is not None:
        out.sent(0)
        sent += 1
    assert sent == 2
    out.acknowledge(1, 0)
    assert out.peek() is not None


def test_one_frame_above_the_credit_still_goes() -> None:
    out = SendWindow(credit_bytes=10, resend_after_ns=MS)
    out.push((bytes(400),))
    assert out.peek() is not None


def test_abandon_returns_everything_once() -> None:
    out = SendWindow(1000, MS)
    for _ in range(4):
        out.push((b"x",))
    out.sent(0)
    out.acknowledge(1, 0)
    assert [frame.seq for frame in out.abandon()] == [2, 3, 4]
    assert out.abandon() == []


def test_the_wait_for_a_resend_stops_growing() -> None:
    """Found by the simulator (seed 30748): kv waited up to 12 s, longer than the transfer's deadline."""
    out = SendWindow(credit_bytes=100, resend_after_ns=1500 * MS)
    out.push((b"x",))
    now, waits = 0, []
    for _ in range(5):
        assert out.peek() is not None
        out.sent(now)
        sent = now
        while not out.is_overdue(now):
            now += 100 * MS
        out.rewind(now)
        out.back_off()
        waits.append(now - sent)
    assert waits[0] < 1700 * MS
    assert max(waits) <= 3100 * MS
