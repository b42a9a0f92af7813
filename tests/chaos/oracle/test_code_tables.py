"""The oracle's tables of abort codes say the same as the engine's, over everything that can be said."""

from __future__ import annotations

from itertools import product

import pytest

from chaos.codes import AbortReason as ChaosReason
from chaos.oracle import abort_codes
from chaos.oracle.abort_codes import NEWS_NS, ORIGINS, STAGES, AbortCodes, legal_pair
from engine.core import abort_matrix
from engine.core.abort_matrix import CAUSES, PLACES, may_pair
from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage, is_clients_own
from engine.core.io_struct import AbortInfo

T0 = 10_000_000_000
APART = (0, NEWS_NS - 1, NEWS_NS, 5 * NEWS_NS)


def info(reason: AbortReason, via: AbortVia, released_ns: int) -> AbortInfo:
    return AbortInfo(
        reason=reason,
        origin=AbortOrigin.SERVER,
        via=via,
        stage=Stage.QUEUE,
        message="",
        received_ns=T0,
        released_ns=released_ns,
    )


def codes(abort: AbortInfo) -> AbortCodes:
    return AbortCodes(
        reason=str(abort.reason),
        origin=str(abort.origin),
        via=str(abort.via),
        stage=str(abort.stage),
        received_ns=abort.received_ns,
        released_ns=abort.released_ns,
        wasted_prefill=0,
        wasted_decode=0,
    )


@pytest.mark.parametrize("link_broke", [False, True])
def test_every_pair_of_halves(link_broke: bool) -> None:
    halves = list(product(AbortReason, AbortVia))
    seen = set()
    for (left, right), apart_ns in product(product(halves, halves), APART):
        one, other = info(*left, T0), info(*right, T0 + apart_ns)
        want = may_pair(one, other, link_broke=link_broke)
        assert legal_pair(codes(one), codes(other), link_broke=link_broke) is want, (one, other)
        seen.add(want)
    assert seen == {False, True}


def test_the_same_time_for_news() -> None:
    assert abort_codes.NEWS_NS == abort_matrix.NEWS_NS
    assert {str(one) for one in abort_matrix.DROPPED_LATE} == abort_codes.CLIENT_REASONS


def test_without_a_stamp_nothing_speaks_for_a_race() -> None:
    one = codes(info(AbortReason.QUEUE_FULL, AbortVia.LOCAL, T0))
    other = codes(info(AbortReason.KV_EXHAUSTED, AbortVia.LOCAL, T0))
    assert legal_pair(one, other, link_broke=False)
    unstamped = AbortCodes(
        reason=other.reason,
        origin=other.origin,
        via=other.via,
        stage=other.stage,
        received_ns=None,
        released_ns=None,
        wasted_prefill=0,
        wasted_decode=0,
    )
    assert not legal_pair(one, unstamped, link_broke=False)


def test_every_reason_and_every_origin_that_a_cause_gives() -> None:
    assert set(ORIGINS) == {str(reason) for reason in AbortReason}
    assert {str(reason) for reason in ChaosReason} <= set(ORIGINS)
    for cause in CAUSES:
        if cause.reason is not None and cause.origin is not None:
            assert str(cause.origin) in ORIGINS[str(cause.reason)], cause.name


def test_every_place_is_a_stage_of_its_role() -> None:
    for place in PLACES:
        if str(place.role) in STAGES:
            assert str(place.stage) in STAGES[str(place.role)], place


def test_who_is_no_error() -> None:
    for reason, origin in product(AbortReason, AbortOrigin):
        if str(origin) in ORIGINS[str(reason)] and is_clients_own(reason, origin):
            assert str(reason) in abort_codes.CLIENT_REASONS
