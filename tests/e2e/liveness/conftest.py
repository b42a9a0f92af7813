"""Pairs that all tests share; after each test both halves hold nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.liveness.pair import Pair
from tests.e2e.liveness.traffic import POOL_TOKENS, Traffic


@contextmanager
def running_traffic(
    directory: Path,
    patch: str | None = None,
    log_to: dict[str, Path] | None = None,
    max_total_tokens: int = POOL_TOKENS,
    flags: Sequence[str] = (),
) -> Iterator[Traffic]:
    """A new pair, both halves patched alike, and requests whose tokens are known."""
    patches = dict.fromkeys(("p0", "d0"), patch) if patch else {}
    pair = Pair(
        directory, max_total_tokens=max_total_tokens, patch=patches, log_to=log_to, flags=flags
    )
    try:
        pair.start()
        traffic = Traffic(pair)
        traffic.learn()
        yield traffic
    finally:
        pair.stop()


@pytest.fixture(scope="session")
def plain_traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    with running_traffic(tmp_path_factory.mktemp("pair")) as traffic:
        yield traffic


@pytest.fixture(scope="session")
def noisy_traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """A pair whose loops can be slowed and stopped by signals, and that log 4 KB a turn: prefill to a
    disk that is full, decode to a pipe that nobody reads."""
    directory = tmp_path_factory.mktemp("noisy")
    pipe = directory / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    logs = {"p0": Path("/dev/full"), "d0": pipe}
    try:
        with running_traffic(directory, "chatty,long_forward,wedged_turn", logs) as traffic:
            yield traffic
    finally:
        os.close(reader)


@pytest.fixture
def traffic(plain_traffic: Traffic) -> Iterator[Traffic]:
    """Requests with known tokens; whatever a test did, nothing may be held at its end."""
    yield from _clean(plain_traffic)


@pytest.fixture
def noisy(noisy_traffic: Traffic) -> Iterator[Traffic]:
    yield from _clean(noisy_traffic)


def _clean(traffic: Traffic) -> Iterator[Traffic]:
    traffic.pair.start_dead()
    traffic.pair.wait_clean()
    yield traffic
    traffic.pair.start_dead()
    traffic.pair.wait_clean()
