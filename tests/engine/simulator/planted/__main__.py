"""The table of planted bugs: ``python -m tests.engine.simulator.planted [--write] [NAME ...]``.

With ``--write`` and no names it renews known.py and the table of docs/simulator.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.simulator.draw import Size, draw_schedule
from engine.simulator.oracle.violation import Law
from engine.simulator.schedule import Schedule
from engine.simulator.shrink import shrink
from engine.simulator.simulation import Outcome, simulate
from tests.engine.simulator.planted import PLANTED, planted

MAX_SCHEDULES = 1000
MAX_SHRINK_RUNS = 300
_HEAD = "| bug | seed | found by | shrunk to |\n|---|---|---|---|\n"
_KNOWN = '''\
"""Where each planted bug is found: (seed, law), as in docs/simulator.md."""

from __future__ import annotations

from engine.simulator.oracle.violation import Law

KNOWN: dict[str, tuple[int, Law]] = {
'''


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The first schedule that shows a bug, and what was left of it."""

    name: str
    seed: int
    law: Law
    num_requests: int
    num_faults: int

    @property
    def row(self) -> str:
        size = f"{_count(self.num_requests, 'request')}, {_count(self.num_faults, 'fault')}"
        return f"| `{self.name}` | {self.seed} | `{self.law}` | {size} |"


def first_failure(max_schedules: int) -> tuple[Schedule, Outcome] | None:
    for seed in range(max_schedules):
        schedule = draw_schedule(seed, Size())
        outcome = simulate(schedule)
        if outcome.violation is not None:
            return schedule, outcome
    return None


def find(name: str) -> Found | None:
    with planted(*PLANTED[name]):
        found = first_failure(MAX_SCHEDULES)
        if found is None or found[1].violation is None:
            return None
        schedule, outcome = found
        law = found[1].violation.law
        small = shrink(schedule, law, MAX_SHRINK_RUNS)
    return Found(
        name=name,
        seed=outcome.seed,
        law=law,
        num_requests=len(small.requests),
        num_faults=len(small.faults),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def write(rows: Sequence[Found]) -> None:
    """Renew known.py and the table in the docs."""
    lines = [f'    "{row.name}": ({row.seed}, Law.{row.law.name}),\n' for row in rows]
    Path(__file__).with_name("known.py").write_text(_KNOWN + "".join(lines) + "}\n")
    page = Path(__file__).parents[4] / "docs/simulator.md"
    before, _, rest = page.read_text().partition(_HEAD)
    after = rest[rest.index("\n\n") :] if rest else ""
    page.write_text(before + _HEAD + "\n".join(row.row for row in rows) + after)


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments if name != "--write"]
    rows = []
    print(_HEAD, end="")
    for name in names or PLANTED:
        found = find(name)
        print(found.row if found else f"| `{name}` | not found | | |", flush=True)
        rows += [found] if found else []
    if len(rows) < len(names or PLANTED):
        return 1
    if "--write" in arguments and not names:
        write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
