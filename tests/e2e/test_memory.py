"""Memory after many short requests, half of them aborted, is what it was after the first of them."""

from __future__ import annotations

import msgspec
import pytest

from bench.memory import Row, Usage, grown, measure, targets
from chaos.local import LocalDeployment
from tests.e2e.client import Front

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(110)]


def wrong(rows: list[Row]) -> list[str]:
    return [f"{row.process}: {problem}" for row in rows for problem in row.grew]


@pytest.mark.parametrize("which", [0, 1], ids=["unified", "pair"])
def test_five_hundred_requests(deployment: LocalDeployment, front: Front, which: int) -> None:
    rows = measure(deployment, targets(deployment)[which], num_requests=500, num_first=150)
    assert wrong(rows) == []
    assert {row.requests for row in rows} == {500}
    assert {row.aborted for row in rows} == {250}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("which", [0, 1], ids=["unified", "pair"])
def test_ten_thousand_requests(deployment: LocalDeployment, front: Front, which: int) -> None:
    rows = measure(deployment, targets(deployment)[which], num_requests=10_000, num_first=1_000)
    assert wrong(rows) == []


def test_a_leak_of_a_kilobyte_a_request_would_be_seen() -> None:
    first = Usage(process="p0 scheduler", uss_mb=300.0, sizes={"rooms_open": 0})
    assert grown(first, msgspec.structs.replace(first, uss_mb=302.0)) == []
    assert grown(first, msgspec.structs.replace(first, uss_mb=311.5))
    assert grown(first, msgspec.structs.replace(first, sizes={"rooms_open": 1}))
