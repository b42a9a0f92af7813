"""A pair that a module shares; after each of its tests both halves hold nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.liveness.pair import Pair
from tests.e2e.liveness.traffic import POOL_TOKENS, Traffic


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"), max_total_tokens=POOL_TOKENS)
    try:
        pair.start()
        yield pair
    finally:
        pair.stop()


@pytest.fixture(scope="module")
def learned(pair: Pair) -> Traffic:
    traffic = Traffic(pair)
    traffic.learn()
    return traffic


@pytest.fixture
def traffic(learned: Traffic) -> Iterator[Traffic]:
    """Requests with known tokens; whatever a test did, nothing may be held at its end."""
    learned.pair.wait_clean()
    yield learned
    learned.pair.wait_clean()
