"""With several pairs a fault explains, and proves, only what happened on its own pair."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chaos.oracle.abort_spans import check_abort_spans
from chaos.oracle.evidence import RunEvidence, load_evidence
from chaos.oracle.exposure import exposed_rids
from chaos.oracle.late import check_late
from chaos.oracle.paths import did_meet, may_meet, paths_of
from chaos.oracle.plan import DeploymentPlan
from chaos.oracle.recovery import recovery_of
from chaos.oracle.server_errors import check_server_errors
from chaos.oracle.span_index import Half
from chaos.verdict import CheckStatus
from tests.chaos.oracle.builder import HealthyRun
from tests.chaos.oracle.spans_builder import wall

Halves = dict[str, tuple[Half, ...]]


@pytest.fixture(scope="module")
def one_pair(tmp_path_factory: pytest.TempPathFactory) -> RunEvidence:
    """Faults: f0 and f1 cut p0-d0, f2 kills d0."""
    return load_evidence(HealthyRun().write(tmp_path_factory.mktemp("run")))


def two_by_two(evidence: RunEvidence, moved: set[str], **workers: str) -> RunEvidence:
    """The same run of a 2P2D deployment; the requests ``moved`` went through other workers."""
    plan = replace(evidence.plan, deployment=replace(DeploymentPlan(), prefill=2, decode=2))
    halves: Halves = {
        rid: tuple(_move(half, workers) for half in found) if rid in moved else found
        for rid, found in evidence.spans.halves.items()
    }
    return replace(evidence, plan=plan, spans=replace(evidence.spans, halves=halves))


def _move(half: Half, workers: dict[str, str]) -> Half:
    return replace(half, worker=workers.get(half.worker, half.worker))


def everybody(evidence: RunEvidence) -> set[str]:
    return {request.rid for request in evidence.requests}


def test_a_path_is_the_workers_of_one_room(one_pair: RunEvidence) -> None:
    evidence = two_by_two(one_pair, {"r0001"}, d0="d1")
    assert paths_of(evidence, "r0000") == (frozenset({"p0", "d0"}),)
    assert paths_of(evidence, "r0001") == (frozenset({"p0", "d1"}),)
    assert paths_of(evidence, "nobody") == (frozenset(),)


@pytest.mark.parametrize(
    ("workers", "meets_cut", "meets_kill"),
    [
        ({}, True, True),
        ({"d0": "d1"}, False, False),
        ({"p0": "p1"}, False, True),
        ({"p0": "p1", "d0": "d1"}, False, False),
    ],
)
def test_a_fault_meets_its_own_pair(
    one_pair: RunEvidence, workers: dict[str, str], meets_cut: bool, meets_kill: bool
) -> None:
    evidence = two_by_two(one_pair, {"r0000"}, **workers)
    cut, _, kill = evidence.faults
    request = evidence.requests[0]
    assert (may_meet(evidence, cut, "r0000"), may_meet(evidence, kill, "r0000")) == (
        meets_cut,
        meets_kill,
    )
    assert (did_meet(evidence, cut, request), did_meet(evidence, kill, request)) == (
        meets_cut,
        meets_kill,
    )


def test_a_half_whose_spans_are_lost_may_be_anybodys(one_pair: RunEvidence) -> None:
    evidence = two_by_two(one_pair, set())
    halves = {**evidence.spans.halves, "r0000": evidence.spans.of("r0000", "prefill")}
    evidence = replace(evidence, spans=replace(evidence.spans, halves=halves))
    cut, _, kill = evidence.faults
    request = evidence.requests[0]
    assert may_meet(evidence, kill, "r0000")
    assert may_meet(evidence, cut, "r0000")
    assert not did_meet(evidence, cut, request), "that proves nothing"
    assert not did_meet(evidence, kill, request), "it completed, so its decode lived"


def test_requests_of_other_pairs_are_not_exposed(one_pair: RunEvidence) -> None:
    ours = two_by_two(one_pair, set())
    theirs = two_by_two(one_pair, everybody(one_pair), p0="p1", d0="d1")
    for mine, other in zip(ours.faults, theirs.faults, strict=True):
        assert exposed_rids(ours, mine)
        if not other.ends_process:
            assert exposed_rids(theirs, other) == set()
    half = {f"r{index:04d}" for index in range(0, 152, 2)}
    mixed = two_by_two(one_pair, half, d0="d1")
    for fault in mixed.faults[:2]:
        met = exposed_rids(mixed, fault)
        assert met
        assert not met & half, "p0 is an end of the link, but not with this decode"


def test_a_request_that_the_kill_ended_before_its_line_was_written_is_exposed(
    one_pair: RunEvidence,
) -> None:
    kill = one_pair.faults[2]
    hit = next(request for request in one_pair.requests if request.errored)
    assert hit.end is not None
    late = replace(kill, injected_ns=hit.end.end_ns + 1)
    assert hit.rid in exposed_rids(one_pair, late)


def test_an_abort_on_another_pair_is_not_permitted(one_pair: RunEvidence) -> None:
    """One dead pair never hurts another: if it does, the fault is no excuse."""
    assert check_abort_spans(two_by_two(one_pair, set())).status is CheckStatus.PASS
    for workers in ({"d0": "d1"}, {"p0": "p1", "d0": "d1"}):
        result = check_abort_spans(two_by_two(one_pair, everybody(one_pair), **workers))
        assert result.status is CheckStatus.FAIL
        assert "no fault permits it" in result.evidence[0].value


def test_an_error_on_another_pair_is_not_explained(one_pair: RunEvidence) -> None:
    """Its decode half has spans of a worker that lives."""
    assert check_server_errors(two_by_two(one_pair, set())).status is CheckStatus.PASS
    evidence = two_by_two(one_pair, set())
    errored = next(request for request in evidence.requests if request.errored)
    donor = evidence.spans.halves["r0000"]
    halves = {**evidence.spans.halves, errored.rid: tuple(_move(h, {"d0": "d1"}) for h in donor)}
    moved = replace(evidence, spans=replace(evidence.spans, halves=halves))
    result = check_server_errors(moved)
    assert result.status is CheckStatus.FAIL
    assert [one.rid for one in result.evidence] == [errored.rid]


def test_recovery_is_of_the_pair_that_was_hurt(one_pair: RunEvidence) -> None:
    ours = two_by_two(one_pair, set())
    theirs = two_by_two(one_pair, everybody(one_pair), p0="p1", d0="d1")
    before, after = recovery_of(ours, ours.faults[0]), recovery_of(theirs, theirs.faults[0])
    assert before is not None
    assert after is not None
    assert before.first_success_ms is not None
    assert after.first_success_ms is None, "success on another pair shows nothing"


def test_a_dead_peer_bounds_only_its_own_pair(one_pair: RunEvidence) -> None:
    """A decode half that waits for 15 s from before the first cut on: late where its peer was cut off."""
    found = one_pair.spans.halves["r0000"]
    (decode,) = [half for half in found if half.role == "decode"]
    waits = replace(decode.stages[0], name="decode.wait_kv", start_ns=wall(4.9), end_ns=wall(19.9))
    slow = tuple(replace(h, stages=(waits,)) if h is decode else h for h in found)
    halves = {**one_pair.spans.halves, "r0000": slow}
    evidence = replace(one_pair, spans=replace(one_pair.spans, halves=halves))
    assert check_late(two_by_two(evidence, set())).status is CheckStatus.FAIL
    elsewhere = two_by_two(evidence, {"r0000"}, d0="d1")
    assert check_late(elsewhere).status is CheckStatus.PASS
