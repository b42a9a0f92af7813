"""The seed of the fresh schedules, the same for all tests of a run and printed at its end."""

from __future__ import annotations

import os

import pytest

SEED = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def fresh_seed(pytestconfig: pytest.Config) -> int:
    """Drawn once a run."""
    seed = int.from_bytes(os.urandom(4), "big")
    pytestconfig.stash[SEED] = seed
    return seed


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    seed = config.stash.get(SEED, None)
    if seed is not None:
        terminalreporter.write_line(
            f"fresh schedules of the simulator: seed {seed}"
            f" (again: severance simulate --schedules 100 --seed {seed})"
        )
