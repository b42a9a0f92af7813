"""Two runners of the tiny model: as prefill and decode have them, or to compare one with the other."""

from __future__ import annotations

import pytest

from engine.model.config import TINY
from engine.model.runner import ModelRunner
from tests.engine.model.drive import PAGE_SIZE

NUM_PAGES = 400


@pytest.fixture(scope="session")
def runner() -> ModelRunner:
    return ModelRunner(TINY, NUM_PAGES, PAGE_SIZE, "float32", seed=0)


@pytest.fixture(scope="session")
def other_runner() -> ModelRunner:
    return ModelRunner(TINY, NUM_PAGES, PAGE_SIZE, "float32", seed=0)
