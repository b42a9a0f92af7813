"""Print the table of docs/simulator.md: ``python -m tests.engine.simulator.planted [NAME ...]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.simulator.draw import Size, draw_schedule
from engine.simulator.schedule import Schedule
from engine.simulator.shrink import shrink
from engine.simulator.simulation import Outcome, simulate
from tests.engine.simulator.planted import PLANTED, planted

MAX_SCHEDULES = 1000


def first_failure(max_schedules: int) -> tuple[Schedule, Outcome] | None:
    for seed in range(max_schedules):
        schedule = draw_schedule(seed, Size())
        outcome = simulate(schedule)
        if outcome.violation is not None:
            return schedule, outcome
    return None


def row(name: str) -> str:
    with planted(*PLANTED[name]):
        found = first_failure(MAX_SCHEDULES)
        if found is None or found[1].violation is None:
            return f"| `{name}` | not found in {MAX_SCHEDULES} | | |"
        schedule, outcome = found
        law = found[1].violation.law
        small = shrink(schedule, law)
    size = f"{_count(small.requests, 'request')}, {_count(small.faults, 'fault')}"
    return f"| `{name}` | {outcome.seed} | `{law}` | {size} |"


def _count(items: Sequence[object], noun: str) -> str:
    return f"{len(items)} {noun}{'s' * (len(items) != 1)}"


if __name__ == "__main__":
    print("| bug | seed | found by | shrunk to |\n|---|---|---|---|")
    for bug in sys.argv[1:] or PLANTED:
        print(row(bug), flush=True)
