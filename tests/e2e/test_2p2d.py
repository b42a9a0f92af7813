"""Two prefills and two decodes behind the real router: each pair has links of its own, and its own fate."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from chaos.codes import CutMode
from chaos.fault_spec import LinkFaultSpec
from chaos.faults.build import build_fault
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.local import LocalDeployment
from chaos.pairs import Completion, Pair, ask_pair, make_ask
from chaos.process import Launcher
from chaos.spec import DeploymentSpec, RouterSpec, WorkerSpec
from chaos.tools import require_toxiproxy
from tests.e2e.client import Front, prompt_of, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(110)]
WORKER = WorkerSpec(max_total_tokens=4096, nice=0)
PAIRS_SQL = """
SELECT p.instance || '-' || d.instance, p.rid FROM spans p JOIN spans d ON p.room = d.room
WHERE p.name = 'request' AND d.name = 'request'
AND p.service = 'severance-prefill' AND d.service = 'severance-decode'
"""


@contextmanager
def running(directory: Path, prefill: int, decode: int) -> Iterator[LocalDeployment]:
    spec = DeploymentSpec(
        prefill=prefill, decode=decode, worker=WORKER, router=RouterSpec(policy="random")
    )
    launcher, brake = Launcher(Journal(directory, "2p2d")), Brake()
    deployment = LocalDeployment(
        spec, launcher, require_toxiproxy(), directory / "spans.sqlite", brake
    )
    try:
        deployment.start()
        for pair in deployment.pairs:
            wait_until(lambda pair=pair: serves(pair), 10, f"{pair} serves")
        yield deployment
    finally:
        left = deployment.stop()
        brake.close()
    assert left == []


@pytest.fixture(scope="module")
def two_by_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDeployment]:
    with running(tmp_path_factory.mktemp("2p2d"), 2, 2) as deployment:
        yield deployment


@pytest.fixture
def front(two_by_two: LocalDeployment) -> Iterator[Front]:
    """A client; all four workers are at their baseline before and after."""
    front = Front(two_by_two)
    front.wait_idle()
    yield front
    front.wait_idle()


def serves(pair: Pair) -> bool:
    return ask_pair(pair, make_ask(300, seed=1), within_s=10).ok


def pairs_used(deployment: LocalDeployment, rids: set[str]) -> Counter[str]:
    """From the spans: which pair served each request."""
    with closing(sqlite3.connect(f"file:{deployment.spans_db}?mode=ro", uri=True)) as database:
        return Counter(pair for pair, rid in database.execute(PAIRS_SQL) if rid in rids)


class Held:
    """Requests of chosen pairs, sent past the router, all at once; seeds are 0, 1, 2 on each pair."""

    def __init__(self, pairs: list[Pair], num_tokens: int, max_new_tokens: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=3 * len(pairs))
        asks = [make_ask(num_tokens, seed, max_new_tokens) for seed in range(3)]
        self._futures: dict[tuple[str, int], Future[Completion]] = {
            (str(pair), seed): self._pool.submit(ask_pair, pair, ask, 40)
            for pair in pairs
            for seed, ask in enumerate(asks)
        }

    def wait(self) -> dict[tuple[str, int], Completion]:
        self._pool.shutdown(wait=True)
        return {key: future.result() for key, future in self._futures.items()}


def pairs_of(deployment: LocalDeployment, *names: str) -> list[Pair]:
    return [pair for pair in deployment.pairs if str(pair) in names]


def whole_and_equal(
    results: dict[tuple[str, int], Completion], expected: list[Completion]
) -> list[str]:
    """What is wrong with them: every request completes with the tokens of its seed."""
    return [
        f"{pair}/{seed}: {got.detail}"
        for (pair, seed), got in results.items()
        if not got.ok or got.output_ids != expected[seed].output_ids
    ]


def expected_of(pair: Pair, num_tokens: int, max_new_tokens: int) -> list[Completion]:
    """Tokens do not depend on the pair (greedy, same weights), so one quiet pair shows them."""
    return [ask_pair(pair, make_ask(num_tokens, s, max_new_tokens), 40) for s in range(3)]


def test_every_pair_serves_through_the_router(two_by_two: LocalDeployment, front: Front) -> None:
    prompt = prompt_of(300, "same")
    pending = [front.send(prompt, 3) for _ in range(40)]
    answers = [one.result() for one in pending]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.output_ids for answer in answers}) == 1
    rids = {one.rid for one in pending}
    wait_until(lambda: sum(pairs_used(two_by_two, rids).values()) >= 40, 5, "spans of all")
    used = pairs_used(two_by_two, rids)
    assert set(used) == {"p0-d0", "p0-d1", "p1-d0", "p1-d1"}, used


def test_a_cut_pair_hurts_no_other(two_by_two: LocalDeployment, front: Front) -> None:
    """kv and control of p0-d0 for 3 s: both ends find each other dead, and stay alive for the rest."""
    untouched = pairs_of(two_by_two, "p0-d1", "p1-d0", "p1-d1")
    (cut_pair,) = pairs_of(two_by_two, "p0-d0")
    expected = expected_of(untouched[-1], 900, 60)
    assert all(one.ok for one in expected)
    cut = LinkFaultSpec(mode=CutMode.STALL, links=("kv:p0-d0", "control:p0-d0"), for_s=3)
    fault = build_fault(cut, two_by_two)
    doomed = Held([cut_pair], 3_000, 8)
    wait_until(lambda: front.ledger("p0").rooms_open >= 3, 5, "joined")
    fault.inject()
    try:
        began = time.monotonic()
        held = Held(untouched, 900, 60)
        results = held.wait()
        assert time.monotonic() - began < 30
        assert fault.verify().proven
        wait_until(lambda: not front.ledger("d0").requests, 10, "d0 rid of the cut pair's requests")
    finally:
        assert fault.heal().healed
    assert whole_and_equal(results, expected) == []
    lost = [got for got in doomed.wait().values() if not got.ok]
    assert lost, "the cut hit nobody"
    assert all("peer_dead" in got.detail for got in lost), lost
    for pair in two_by_two.pairs:
        assert wait_until(lambda pair=pair: serves(pair), 10, f"{pair} serves") < 5


def test_a_dead_decode_hurts_no_other_pair(two_by_two: LocalDeployment, front: Front) -> None:
    living = pairs_of(two_by_two, "p0-d0", "p1-d0")
    expected = expected_of(living[0], 900, 60)
    doomed = Held(pairs_of(two_by_two, "p0-d1"), 3_000, 8)
    wait_until(lambda: front.ledger("p0").rooms_open >= 1, 5, "joined")
    held = Held(living, 900, 60)
    two_by_two.kill_worker("d1")
    assert whole_and_equal(held.wait(), expected) == []
    assert [got.detail for got in doomed.wait().values() if got.ok] == [], "its decode is dead"
    answers = [front.send(prompt_of(200), 2) for _ in range(8)]
    statuses = Counter(one.result().status for one in answers)
    assert statuses[200] >= 1, statuses
    two_by_two.restart_worker("d1")
    for pair in two_by_two.pairs:
        assert wait_until(lambda pair=pair: serves(pair), 10, f"{pair} serves") < 5
    again = Held(list(two_by_two.pairs), 900, 60).wait()
    assert whole_and_equal(again, expected) == []


def test_one_prefill_feeds_three_decodes(tmp_path: Path) -> None:
    with running(tmp_path, 1, 3) as deployment:
        front = Front(deployment)
        prompt = prompt_of(500, "one for three")
        pending = [front.send(prompt, 4) for _ in range(30)]
        assert len({one.result().output_ids for one in pending}) == 1
        rids = {one.rid for one in pending}
        wait_until(lambda: sum(pairs_used(deployment, rids).values()) >= 30, 5, "spans of all")
        assert set(pairs_used(deployment, rids)) == {"p0-d0", "p0-d1", "p0-d2"}
        deployment.kill_worker("d1")
        rest = pairs_of(deployment, "p0-d0", "p0-d2")
        assert all(got.ok for got in Held(rest, 600, 20).wait().values())
        deployment.restart_worker("d1")
        for pair in deployment.pairs:
            assert wait_until(lambda pair=pair: serves(pair), 10, f"{pair} serves") < 5
        front.wait_idle()
