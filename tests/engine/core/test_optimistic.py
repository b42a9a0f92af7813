"""Optimistic prefill: a request computes before its decode half is ready."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.codes import AbortReason, AbortVia, KVPoll, Stage
from engine.core.config import SECOND_NS
from engine.core.io_struct import ControlReq, TokenOut
from engine.core.ledger import Resource
from engine.core.peer import PeerUp
from engine.core.req import Req
from tests.engine.core.test_abort_paths import LONG, assert_clean, the_abort, until_stage
from tests.engine.core.twin import PAGE, Pair, expected_tokens, make_abort, make_request

NUM_CHUNKS = 3
"""of LONG"""


def make_pair(attempts: int = 1, **changes: int) -> Pair:
    return Pair(optimistic_prefill_attempts=attempts, **changes)


def ask(pair: Pair, rid: str, room: int, prompt: tuple[int, ...] = LONG) -> Req:
    """The request at prefill alone; its decode half comes later, or never."""
    pair.prefill.inbox.append(make_request(rid, room, prompt, 4, pair.now_ns))
    pair.prefill.recv(pair.now_ns)
    return pair.prefill.core.reqs[rid, room]


def ask_decode(pair: Pair, rid: str, room: int, prompt: tuple[int, ...] = LONG) -> None:
    pair.decode.inbox.append(make_request(rid, room, prompt, 4, pair.now_ns))


def fill_decode() -> Pair:
    """A pair whose decode has no memory for a second request while "z" runs, for 60 tokens."""
    pair = make_pair(decode_pages=24)
    pair.request("z", 6, LONG, 60)
    until_stage(pair, pair.decode, "z", Stage.RUNNING)
    pair.deliver()
    compute(pair, 1)
    return pair


def compute(pair: Pair, steps: int = NUM_CHUNKS) -> None:
    for _ in range(steps):
        pair.prefill.step(pair.now_ns)


def meet(pair: Pair) -> None:
    """Both loops and both wires, until the room is ready at prefill."""
    for _ in range(3):
        pair.connect()
        pair.decode.step(pair.now_ns)
        pair.deliver()


def num_chunks(pair: Pair, rid: str) -> int:
    (answer,) = pair.prefill.answers(rid)
    assert answer.trace is not None
    return [span.name for span in answer.trace.spans].count("prefill.chunk")


def held_by(pair: Pair, req: Req) -> dict[str, int]:
    holders = pair.prefill.core.pools.ledger.holders()
    return {h.resource: h.count for h in holders if h.owner == req.owner}


def test_it_is_off_by_default() -> None:
    pair = Pair()
    req = ask(pair, "a", 7)
    compute(pair)
    assert (req.stage, req.num_cached_tokens, held_by(pair, req)) == (Stage.BOOTSTRAP, 0, {})


@pytest.mark.parametrize("computed", range(NUM_CHUNKS + 2))
def test_what_was_computed_before_the_bootstrap_is_sent_after_it(computed: int) -> None:
    """At each chunk, and with all of them done: right tokens, and nothing computed twice."""
    pair = make_pair()
    req = ask(pair, "a", 7)
    compute(pair, computed)
    assert req.num_cached_tokens == min(computed * 2 * PAGE, len(LONG))
    assert not any(isinstance(sent, tuple) for sent in pair.prefill.sent), "sent to nobody"
    ask_decode(pair, "a", 7)
    meet(pair)
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 4)
    assert num_chunks(pair, "a") == NUM_CHUNKS
    for worker in pair.workers:
        assert_clean(worker)


def test_parked_it_holds_no_metadata_slot_and_is_sent_at_once_when_they_meet() -> None:
    pair = make_pair()
    req = ask(pair, "a", 7)
    compute(pair)
    assert req.stage is Stage.WAITING
    assert set(held_by(pair, req)) == {Resource.KV_PAGES, Resource.REQ_SLOTS}
    assert pair.prefill.core.queues()["optimistic"] == 1
    ask_decode(pair, "a", 7)
    meet(pair)
    pair.prefill.step(pair.now_ns)
    assert req.stage is Stage.TRANSFER
    assert set(held_by(pair, req)) == {Resource.STAGING_PAGES}  # the token went with the last page


def test_parked_without_a_free_metadata_slot_it_waits_for_one() -> None:
    pair = make_pair()
    req = ask(pair, "a", 7)
    compute(pair)
    slots = pair.prefill.core.pools.metadata_slots
    taken = slots.allocate("somebody", slots.num_free)
    ask_decode(pair, "a", 7)
    meet(pair)
    compute(pair, 2)
    assert req.stage is Stage.WAITING
    slots.free("somebody", taken)
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 4)
    assert num_chunks(pair, "a") == NUM_CHUNKS


# ---- abort and Failed (sglang#31075: such a request stayed in its queue for ever) -----------------


@pytest.mark.parametrize("steps", [1, 2, NUM_CHUNKS])
@pytest.mark.parametrize("is_joined", [False, True])
def test_abort_releases_everything_and_tells_decode(steps: int, is_joined: bool) -> None:
    pair = fill_decode()
    req = ask(pair, "a", 7)
    if is_joined:
        ask_decode(pair, "a", 7)
        meet(pair)
    compute(pair, steps)
    room = pair.prefill.core.rooms.get(7)
    assert room is not None
    assert (room.state, room.joined) == (KVPoll.Bootstrapping, is_joined)
    pair.prefill.inbox.append(make_abort("a", pair.now_ns))
    pair.prefill.step(pair.now_ns)
    assert the_abort(pair.prefill, "a").reason is AbortReason.CLIENT_ABORT
    assert held_by(pair, req) == {}
    if not is_joined:
        ask_decode(pair, "a", 7)
    pair.settle()
    told = the_abort(pair.decode, "a")
    assert (told.reason, told.via) == (AbortReason.CLIENT_ABORT, AbortVia.PEER)
    for worker in pair.workers:
        assert_clean(worker)


@pytest.mark.parametrize("steps", [1, 2, NUM_CHUNKS])
def test_a_decode_half_that_never_comes_ends_it_after_the_bootstrap_timeout(steps: int) -> None:
    pair = make_pair()
    req = ask(pair, "a", 7)
    compute(pair, steps)
    pair.now_ns += 5 * SECOND_NS + 1
    pair.prefill.step(pair.now_ns)
    info = the_abort(pair.prefill, "a")
    assert info.reason is AbortReason.BOOTSTRAP_TIMEOUT
    assert held_by(pair, req) == {}
    assert_clean(pair.prefill)


@pytest.mark.parametrize("steps", [1, 2, NUM_CHUNKS])
def test_an_abort_at_decode_ends_it_at_the_next_step(steps: int) -> None:
    pair = make_pair()
    pair.request("z", 6, (1, 2), 1)
    pair.settle()
    ask(pair, "a", 7)
    compute(pair, steps)
    ask_decode(pair, "a", 7)
    pair.decode.inbox.append(make_abort("a", pair.now_ns))
    pair.decode.step(pair.now_ns)
    pair.deliver()
    pair.prefill.step(pair.now_ns)
    assert the_abort(pair.prefill, "a").via is AbortVia.PEER
    assert pair.prefill.tokens("a") == []
    pair.settle()
    for worker in pair.workers:
        assert_clean(worker)


def test_parked_it_lives_as_long_as_decode_says_that_it_queues_there() -> None:
    """Its room is confirmed once a second: the bootstrap timeout is for silence, not for waiting."""
    pair = fill_decode()
    pair.request("a", 7, LONG, 4)
    for _ in range(40):
        pair.deliver()
        pair.prefill.step(pair.now_ns)
        pair.deliver()
        pair.decode.step(pair.now_ns)
        pair.now_ns += SECOND_NS // 5
    assert pair.prefill.core.reqs["a", 7].stage is Stage.WAITING
    assert not pair.prefill.answers("a")
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 4)


# ---- others first ---------------------------------------------------------------------------------


def test_a_bootstrapped_request_overtakes_between_two_chunks_and_nothing_is_lost() -> None:
    pair = make_pair()
    trusting = ask(pair, "trusting", 1)
    compute(pair, 1)
    pair.request("ready", 2, LONG, 4)
    until_stage(pair, pair.prefill, "ready", Stage.MID_CHUNK)
    assert trusting.stage is Stage.WAITING
    assert 0 < trusting.num_cached_tokens < len(LONG)
    ask_decode(pair, "trusting", 1)
    pair.settle()
    assert [out.rid for out in pair.prefill.outs if out.finish] == ["ready", "trusting"]
    assert num_chunks(pair, "trusting") == NUM_CHUNKS
    assert pair.prefill_core.optimistic.num_retracted == 0


def test_together_they_hold_half_of_the_pool_and_half_of_the_slots_at_most() -> None:
    pair = make_pair(prefill_pages=24, max_running_requests=4)
    reqs = [ask(pair, f"r{number}", number) for number in range(6)]
    compute(pair, 20)
    held = [held_by(pair, req) for req in reqs]
    assert sum(each.get(Resource.KV_PAGES, 0) for each in held) <= 12
    assert sum(each.get(Resource.REQ_SLOTS, 0) for each in held) == 2
    assert [req.stage for req in reqs[2:]] == [Stage.BOOTSTRAP] * 4


def test_one_that_can_never_fit_its_share_waits_and_does_not_block_the_next() -> None:
    pair = make_pair(prefill_pages=10)
    large, small = ask(pair, "large", 1), ask(pair, "small", 2, (1, 2, 3))
    compute(pair)
    assert (large.stage, small.stage) == (Stage.BOOTSTRAP, Stage.WAITING)


@pytest.mark.parametrize("attempts", [1, 2])
def test_memory_that_a_bootstrapped_request_needs_is_given_up(attempts: int) -> None:
    """The pool is full of requests whose decode half never comes; then comes one that needs it all."""
    pair = make_pair(attempts, prefill_pages=12, decode_pages=40)
    trusting = ask(pair, "trusting", 1)
    compute(pair)
    prompt = tuple(1 + at % 100 for at in range(12 * PAGE))
    for number in range(attempts + 1):
        rid = f"ready{number}"
        pair.request(rid, 10 + number, prompt, 2)
        until_stage(pair, pair.prefill, rid, Stage.MID_CHUNK)
        assert held_by(pair, trusting) == {}
        for _ in range(20):
            meet(pair)
            compute(pair, 1)
        assert pair.decode.tokens(rid) == expected_tokens(prompt, 2)
        may_try_again = number + 1 < attempts
        assert trusting.stage is (Stage.WAITING if may_try_again else Stage.BOOTSTRAP)
    assert pair.prefill_core.optimistic.num_retracted == attempts
    ask_decode(pair, "trusting", 1)
    pair.settle()
    assert pair.decode.tokens("trusting") == expected_tokens(LONG, 4)
    for worker in pair.workers:
        assert_clean(worker)


def test_retracted_as_its_room_becomes_ready_it_goes_the_ordinary_way() -> None:
    """Ready, but without a metadata slot, and another one needs its memory."""
    pair = make_pair(prefill_pages=12, decode_pages=40)
    req = ask(pair, "a", 7)
    compute(pair)
    prompt = tuple(1 + at % 100 for at in range(12 * PAGE))
    pair.request("large", 8, prompt, 2)
    meet(pair)
    pair.prefill_core.recv(pair.prefill.inbox, pair.now_ns)
    pair.prefill.inbox.clear()
    slots = pair.prefill.core.pools.metadata_slots
    taken = slots.allocate("somebody", slots.num_free - 1)
    pair.prefill.step(pair.now_ns)
    ask_decode(pair, "a", 7)
    meet(pair)
    compute(pair, 1)
    assert held_by(pair, req) == {}
    slots.free("somebody", taken)
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 4)
    assert pair.decode.tokens("large") == expected_tokens(prompt, 2)
    for worker in pair.workers:
        assert_clean(worker)


# ---- the operator's switches ----------------------------------------------------------------------


def control(pair: Pair, op: str) -> bytes:
    pair.prefill.core.recv([ControlReq(id=1, op=op)], pair.now_ns)
    (emit,) = pair.prefill.core.take_effects()
    return msgspec.json.encode(emit)


def test_paused_nothing_is_computed_or_sent_and_continue_goes_on() -> None:
    pair = make_pair()
    req = ask(pair, "a", 7)
    compute(pair, 1)
    control(pair, "pause")
    ask_decode(pair, "a", 7)
    meet(pair)
    compute(pair, 3)
    assert req.num_cached_tokens == 2 * PAGE
    assert not any(isinstance(sent, tuple) for sent in pair.prefill.sent)
    control(pair, "continue")
    pair.settle()
    assert pair.decode.tokens("a") == expected_tokens(LONG, 4)


def test_paused_an_abort_of_a_parked_one_is_done() -> None:
    pair = make_pair()
    ask(pair, "a", 7)
    compute(pair)
    control(pair, "pause")
    pair.prefill.inbox.append(make_abort("a", pair.now_ns))
    pair.prefill.step(pair.now_ns)
    assert the_abort(pair.prefill, "a").stage is Stage.WAITING
    assert_clean(pair.prefill)


def test_a_parked_request_is_no_idle_worker_for_flush() -> None:
    pair = make_pair()
    ask(pair, "a", 7)
    compute(pair)
    pair.prefill.core.recv([ControlReq(id=1, op="flush")], pair.now_ns)
    assert not pair.prefill.core.is_idle()


def test_abort_all_takes_every_kind() -> None:
    """A candidate, one set aside, one parked, a bootstrapped one that computes."""
    pair = make_pair(prefill_pages=64, max_running_requests=6)
    parked = ask(pair, "parked", 1)
    compute(pair)
    aside = ask(pair, "aside", 2)
    compute(pair, 1)
    pair.request("ready", 3, LONG, 4)
    until_stage(pair, pair.prefill, "ready", Stage.MID_CHUNK)
    candidate = ask(pair, "candidate", 4)
    optimistic = pair.prefill_core.optimistic
    assert parked in optimistic.parked
    assert aside in optimistic.set_aside
    assert candidate in optimistic.candidates
    everything = msgspec.structs.replace(make_abort("", pair.now_ns), abort_all=True)
    pair.prefill.inbox.append(everything)
    pair.prefill.step(pair.now_ns)
    for rid in ("parked", "aside", "ready", "candidate"):
        assert the_abort(pair.prefill, rid).reason is AbortReason.CLIENT_ABORT
    pair.settle()
    for worker in pair.workers:
        assert_clean(worker)


def test_its_answer_comes_once_and_its_first_token_is_never_streamed_before() -> None:
    pair = make_pair()
    ask(pair, "a", 7)
    compute(pair, 6)
    assert not any(isinstance(out, TokenOut) for out in pair.prefill.outs)
    pair.prefill.inbox.append(PeerUp(peer="d", incarnation="d-1"))
    compute(pair, 1)
    assert pair.prefill.outs == []
