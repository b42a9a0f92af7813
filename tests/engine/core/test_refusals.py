"""What one half's HTTP side refuses (a 400), the other half hears of at once and does not wait for."""

from __future__ import annotations

import pytest

from engine.core.codes import AbortReason, AbortVia
from engine.core.config import SECOND_NS
from engine.core.io_struct import RefusedReq
from engine.core.peer import Connect
from tests.engine.core.twin import Pair, Worker, broken_laws

ROOM = 7
TEXT = "refused the request: sampling_params.n is not supported"


def refusal() -> RefusedReq:
    return RefusedReq(
        bootstrap_room=ROOM,
        bootstrap_host="p",
        bootstrap_port=1,
        reason=AbortReason.TRANSFER_FAILED,
        message=TEXT,
    )


def move(pair: Pair, rounds: int = 4) -> None:
    for _ in range(rounds):
        pair.connect()
        for worker in pair.workers:
            pair.deliver()
            worker.step(pair.now_ns)


def halves(pair: Pair, refuser: str) -> tuple[Worker, Worker]:
    return (pair.prefill, pair.decode) if refuser == "prefill" else (pair.decode, pair.prefill)


@pytest.mark.parametrize("has_met", [False, True])
@pytest.mark.parametrize("refused_first", [False, True])
@pytest.mark.parametrize("refuser", ["prefill", "decode"])
def test_the_other_half_ends_in_no_time(refuser: str, refused_first: bool, has_met: bool) -> None:
    pair = Pair()
    if has_met:
        pair.request("before", 1, (1, 2, 3), 2)
        move(pair, 8)
    mine, other = halves(pair, refuser)
    if refused_first:
        mine.inbox.append(refusal())
        move(pair)
    pair.request("a", ROOM, (1, 2, 3), 2)
    mine.inbox.pop()
    if not refused_first:
        move(pair)  # JOIN, and where decode waits for it METADATA too, come first
        assert other.answers("a") == []
        mine.inbox.append(refusal())
    move(pair)
    (answer,) = other.answers("a")
    assert answer.finish is not None
    assert answer.finish.abort is not None
    assert answer.finish.abort.via is AbortVia.PEER
    assert answer.finish.abort.reason is AbortReason.TRANSFER_FAILED
    assert TEXT in answer.finish.abort.message
    assert pair.now_ns == SECOND_NS
    for worker in pair.workers:
        assert worker.core.is_idle()
        assert broken_laws(worker.core) == []


@pytest.mark.parametrize("refuser", ["prefill", "decode"])
def test_the_same_body_twice_does_not_end_the_first(refuser: str) -> None:
    """(rid, room) is open already: the second is refused, and the room belongs to the first."""
    pair = Pair()
    pair.request("a", ROOM, (1, 2, 3), 2)
    move(pair, 1)
    halves(pair, refuser)[0].inbox.append(refusal())
    pair.settle()
    for worker in pair.workers:
        (answer,) = worker.answers("a")
        assert answer.finish is not None
        assert answer.finish.type == "length"


def test_a_refusal_that_comes_when_all_is_over_changes_nothing() -> None:
    pair = Pair()
    pair.request("a", ROOM, (1, 2, 3), 2)
    pair.settle()
    for worker in pair.workers:
        worker.inbox.append(refusal())
        worker.step(pair.now_ns)
        assert all(isinstance(sent, Connect) for sent in worker.sent)
        assert worker.core.is_idle()
