"""A decode loop that stands still or is slow holds at most its credit; the rest stays at prefill."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.peer import (
    Attempt,
    Connect,
    Join,
    KvArrived,
    KvSettled,
    KvTaken,
    PeerSaid,
    PeerUp,
    Tell,
)
from engine.transfer.arrivals import ARRIVALS_BYTES, MAX_CREDIT_BYTES, Arrivals, credit_of_each
from engine.transfer.windows import SendWindow
from tests.engine.transfer.test_links import (
    End,
    RouteServer,
    make_decode,
    make_prefill,
    pages,
    publish,
    send,
    until,
)

FRAME = bytes(1 << 20)
NUM_FRAMES = 48


@pytest.fixture
def route() -> Iterator[RouteServer]:
    server = RouteServer()
    yield server
    server.close()


@pytest.fixture
def pair(route: RouteServer) -> Iterator[tuple[End, End]]:
    prefill, decode = make_prefill(), make_decode()
    publish(route, prefill)
    decode.links.connect(Connect(peer=route.address))
    until([prefill, decode], lambda: bool(prefill.got(PeerUp) and decode.got(PeerUp)))
    yield prefill, decode
    prefill.links.close()
    decode.links.close()


def arrived(decode: End) -> list[KvArrived]:
    return [item for item in decode.news if isinstance(item, KvArrived)]


def run_for(ends: list[End], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    until(ends, lambda: time.monotonic() > deadline)


def test_a_loop_that_stands_still_holds_its_credit_and_no_more(pair: tuple[End, End]) -> None:
    prefill, decode = pair
    for number in range(NUM_FRAMES):
        send(prefill, pages(1, number, FRAME), FRAME)
    run_for([prefill, decode], 2.5)  # longer than the wait for a resend
    held = sum(len(item.data) for item in arrived(decode))
    assert MAX_CREDIT_BYTES // 2 < held <= MAX_CREDIT_BYTES
    assert decode.links.num_arrived_bytes() <= MAX_CREDIT_BYTES
    # What has arrived is acknowledged: it is not sent again, and its staging space is free.
    assert decode.links.counters.duplicates == 0
    assert len(prefill.got(KvSettled)) == len(arrived(decode))
    while len(arrived(decode)) < NUM_FRAMES:
        last = arrived(decode)[-1]
        decode.links.taken(KvTaken(peer=last.peer, session=last.session, seq=last.seq))
        before = len(arrived(decode))
        until([prefill, decode], lambda before=before: len(arrived(decode)) > before)  # type: ignore[misc]
    assert [item.header.first_page for item in arrived(decode)] == list(range(NUM_FRAMES))
    last = arrived(decode)[-1]
    decode.links.taken(KvTaken(peer=last.peer, session=last.session, seq=last.seq))
    assert decode.links.num_arrived_bytes() == 0


def test_what_is_taken_of_a_dead_session_gives_the_next_one_nothing(
    pair: tuple[End, End],
) -> None:
    prefill, decode = pair
    send(prefill, pages(1, 0, FRAME), FRAME)
    until([prefill, decode], lambda: bool(arrived(decode)))
    held = decode.links.num_arrived_bytes()
    (item,) = arrived(decode)
    decode.links.taken(KvTaken(peer=item.peer, session=item.session + 1, seq=item.seq))
    assert decode.links.num_arrived_bytes() == held > 0


def test_a_full_inbox_refuses_messages_but_hears_beats(
    route: RouteServer, pair: tuple[End, End]
) -> None:
    """Nothing is lost: who is not acknowledged sends again, once there is room."""
    prefill, decode = pair
    prefill.links.has_room = decode.links.has_room = False
    join = Join(room=1, attempt=Attempt("d-1", 1), rid="r")
    decode.links.tell(Tell(peer=route.address, message=join))
    send(prefill, pages(1, 0, bytes(8)), bytes(8))
    run_for([prefill, decode], 1.0)  # longer than dead_after
    assert prefill.got(PeerSaid) == []
    assert arrived(decode) == []
    assert prefill.links.counters.refused >= 1
    assert prefill.links.counters.sessions_lost == 0
    prefill.links.has_room = decode.links.has_room = True
    until([prefill, decode], lambda: bool(prefill.got(PeerSaid) and arrived(decode)))
    assert len(prefill.got(PeerSaid)) == len(arrived(decode)) == 1


@pytest.mark.parametrize(("num_peers", "credit"), [(0, 32), (1, 32), (2, 32), (8, 8), (64, 1)])
def test_all_peers_together_have_one_budget(num_peers: int, credit: int) -> None:
    assert credit_of_each(num_peers) == credit << 20
    assert credit_of_each(num_peers) * num_peers <= ARRIVALS_BYTES


@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "send", "ack", "take", "rewind"]), st.integers(1, 30))
    )
)
def test_the_sender_never_has_more_out_than_its_credit(moves: list[tuple[str, int]]) -> None:
    """Sent and not taken, whatever is acknowledged or sent again; one frame alone may be larger."""
    window, arrivals = SendWindow(40, 10**9, is_taken_by_ack=False), Arrivals()
    sent = acked = taken = 0
    for what, amount in moves:
        match what:
            case "push":
                window.push((bytes(amount),))
            case "send" if (frame := window.peek()) is not None:
                window.sent(0)
                if frame.seq > sent:
                    sent = frame.seq
                    arrivals.came(frame.seq, frame.num_bytes)
            case "ack":
                acked = min(sent, acked + amount)
                window.acknowledge(acked, 0)
            case "take":
                taken = min(acked, taken + amount)
                arrivals.taken(taken)
                window.take(taken)
            case "rewind":
                window.rewind(0)
        assert arrivals.num_bytes <= 40 or sent - taken == 1
        assert arrivals.taken_seq == taken
