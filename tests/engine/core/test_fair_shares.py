"""A decode that takes nothing (its kv link is cut) never costs another decode of its prefill anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.codes import AbortReason, DisaggregationMode
from engine.core.config import SECOND_NS
from engine.core.errors import OutOfResource
from engine.core.ledger import Resource, ResourceLedger
from engine.core.peer import (
    Attempt,
    Committed,
    Join,
    KvSettled,
    Metadata,
    PeerSaid,
    PeerUp,
    SendKv,
)
from engine.core.shared_allocator import SharedAllocator
from tests.engine.core.twin import PAGE, Worker, broken_laws, make_config, make_request

STEP_NS = SECOND_NS // 100


class Fleet:
    """One prefill and decodes that take every frame at once, but those in ``cut`` take none."""

    def __init__(self, num_pages: int, staging: int, num_decodes: int = 2) -> None:
        config = make_config("p", num_pages, num_staging_pages=staging)
        self.worker = Worker(DisaggregationMode.PREFILL, config)
        self.now_ns = SECOND_NS
        self.cut: set[str] = set()
        self.num_rooms = 0
        for number in range(num_decodes):
            self.worker.inbox.append(PeerUp(peer=f"d{number}", incarnation=f"d{number}-1"))

    def ask(self, decode: str, num_tokens: int) -> str:
        """A request whose decode half is ready; returns its rid."""
        self.num_rooms += 1
        room, rid = self.num_rooms, f"{decode}-{self.num_rooms}"
        attempt = Attempt(f"{decode}-1", room)
        join = Join(room=room, attempt=attempt, rid=rid)
        metadata = Metadata(room=room, attempt=attempt, num_pages=-(-num_tokens // PAGE))
        for message in (join, metadata):
            self.worker.inbox.append(PeerSaid(peer=decode, message=message))
        prompt = tuple(range(1, num_tokens + 1))
        self.worker.inbox.append(make_request(rid, room, prompt, 4, self.now_ns))
        return rid

    def step(self) -> None:
        self.worker.step(self.now_ns)
        self.now_ns += STEP_NS
        assert broken_laws(self.worker.core) == []
        kept = []
        while self.worker.sent:
            sent = self.worker.sent.popleft()
            if isinstance(sent, tuple) and sent[0].peer in self.cut:
                kept.append(sent)
            elif isinstance(sent, tuple):
                self._take(sent[0])
        self.worker.sent.extend(kept)

    def _take(self, send: SendKv) -> None:
        header = send.header
        self.worker.inbox.append(
            KvSettled(
                peer=send.peer,
                room=header.room,
                owner=send.owner,
                staging_ids=send.staging_ids,
                acknowledged=True,
            )
        )
        if header.is_last:
            done = Committed(room=header.room, attempt=header.attempt)
            self.worker.inbox.append(PeerSaid(peer=send.peer, message=done))

    def reason(self, rid: str) -> AbortReason | None:
        (answer,) = self.worker.answers(rid)
        assert answer.finish is not None
        return answer.finish.abort.reason if answer.finish.abort else None

    def steps_until_answered(self, rid: str, limit: int) -> int:
        for count in range(1, limit + 1):
            self.step()
            if self.worker.answers(rid):
                return count
        raise AssertionError(f"{rid} is not answered after {limit} steps")


@pytest.mark.parametrize("num_tokens", [3, 20, 60])
@pytest.mark.parametrize("staging", [4, 8, 64])
def test_a_flood_for_a_cut_decode_does_not_hold_up_another(staging: int, num_tokens: int) -> None:
    """Staging space, metadata slots, request slots and KV pages: none of them may run out for d1."""
    fleet = Fleet(num_pages=40, staging=staging)
    fleet.cut.add("d0")
    for _ in range(40):
        fleet.ask("d0", num_tokens)
    for _ in range(60):
        fleet.step()
    for tokens in (3, 20, 60):
        rid = fleet.ask("d1", tokens)
        fleet.steps_until_answered(rid, limit=60)
        assert fleet.reason(rid) is None


def test_pages_that_a_cut_decode_leaves_are_given_up_when_another_needs_them() -> None:
    """One request that fills the pool, cut in the middle: the only case in which somebody waits at all."""
    fleet = Fleet(num_pages=16, staging=4)
    big = fleet.ask("d0", 16 * PAGE)
    fleet.cut.add("d0")
    for _ in range(20):
        fleet.step()
    rid = fleet.ask("d1", 3)
    waited = fleet.steps_until_answered(rid, limit=300) * STEP_NS
    config = fleet.worker.core.config
    assert waited < config.transfer_yield_ns + config.room_query_ns  # rooms are looked at so often
    assert fleet.reason(rid) is None
    assert fleet.reason(big) is AbortReason.TRANSFER_TIMEOUT


def test_nothing_is_given_up_while_nobody_needs_it() -> None:
    fleet = Fleet(num_pages=16, staging=4)
    big = fleet.ask("d0", 16 * PAGE)
    fleet.cut.add("d0")
    for _ in range(5 * SECOND_NS // STEP_NS):
        fleet.step()
    assert fleet.worker.answers(big) == []
    fleet.cut.clear()
    fleet.steps_until_answered(big, limit=40)
    assert fleet.reason(big) is None


def test_who_waits_for_a_cut_decode_does_not_wait_for_ever() -> None:
    """The decode half says that it lives; only its kv link takes nothing."""
    fleet = Fleet(num_pages=40, staging=4)
    fleet.cut.add("d0")
    rids = [fleet.ask("d0", 20) for _ in range(12)]
    limit_ns = fleet.worker.core.config.transfer_timeout_ns + SECOND_NS
    for _ in range(limit_ns // STEP_NS):
        fleet.step()
    assert {fleet.reason(rid) for rid in rids} == {AbortReason.TRANSFER_TIMEOUT}


def test_a_large_request_is_not_overtaken_for_ever_by_small_ones_of_its_decode() -> None:
    fleet = Fleet(num_pages=40, staging=4)
    fleet.ask("d0", 8)
    big = fleet.ask("d0", 80)
    for _ in range(80):
        fleet.ask("d0", 3)
        fleet.step()
    assert fleet.worker.answers(big)


def make_pool(total: int) -> SharedAllocator:
    return SharedAllocator(Resource.STAGING_PAGES, total, ResourceLedger())


@given(
    total=st.integers(1, 200),
    num_peers=st.integers(1, 12),
    wants=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 50)), max_size=60),
)
def test_whoever_holds_less_than_its_part_can_go_on(
    total: int, num_peers: int, wants: list[tuple[int, int]]
) -> None:
    pool = make_pool(total)
    for number, count in wants:
        peer = f"d{number % num_peers}"
        count = min(count, pool.num_free_for(peer, num_peers))
        if count:
            pool.allocate_for(peer, "r", count)
    part = total // (2 * num_peers)
    for number in range(num_peers):
        free_for = pool.num_free_for(f"d{number}", num_peers)
        assert free_for >= part - pool.num_held_by(f"d{number}")
        if total >= num_peers and not pool.num_held_by(f"d{number}"):
            assert free_for >= 1


@given(st.lists(st.integers(1, 9), max_size=30))
def test_what_comes_back_counts_no_longer(counts: list[int]) -> None:
    pool = make_pool(64)
    before = pool.num_free_for("a", 2)
    held = []
    for count in counts:
        if count <= pool.num_free_for("a", 2):
            held.append(pool.allocate_for("a", "r", count))
    for units in held:
        pool.free("r", units)
        pool.free("r", units)  # a double free is noted, and gives no share back
    assert pool.num_held_by("a") == 0
    assert pool.num_free_for("a", 2) == before


def test_one_that_is_alone_has_most_of_the_pool() -> None:
    pool = make_pool(4096)
    assert pool.num_free_for("a", 1) == 3072
    with pytest.raises(OutOfResource):
        pool.allocate_for("a", "r", 4097)
    assert pool.num_held_by("a") == 0
