"""What does a scheduling step of prefill cost while thousands of requests wait?

    python -m bench.step_cost [--json FILE] [--quick]

Real cores without a model, with 10, 1,000 and 10,000 waiting requests. Times are CPU times of the thread.
Prints a JSON line a row to stdout and a table to stderr; FILE gets the rows as a list. The exit code is 0
also where a target is missed: the rows say that.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from bench.waiting_room import WaitingRoom

COUNTS = (10, 1_000, 10_000)
BATCH = 50
STEP_NS = 10_000_000
NUM_ABORTS = 1_000
TARGET_US = 20.0
TARGET_RATIO = 2.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``passed`` None: a figure without a target."""

    name: str
    target: str
    value: float
    unit: str
    passed: bool | None
    how: str


def costs_us(steps: Mapping[int, Callable[[], object]], samples: int) -> dict[int, float]:
    """Median CPU time of each step, in microseconds, over batches of `BATCH`, taken in turn."""
    times: dict[int, list[float]] = {count: [] for count in steps}
    for _ in range(samples):
        for count, step in steps.items():
            began_ns = time.thread_time_ns()
            for _ in range(BATCH):
                step()
            times[count].append((time.thread_time_ns() - began_ns) / BATCH / 1e3)
    return {count: statistics.median(taken) for count, taken in times.items()}


def measure(samples: int) -> Iterator[Row]:
    """All rows; ``samples`` batches a figure."""
    for bootstrapped in (True, False):
        what = "waiting" if bootstrapped else "in bootstrap"
        rooms = {count: WaitingRoom(count, bootstrapped=bootstrapped) for count in COUNTS}
        checks = costs_us({count: room.abort_checks for count, room in rooms.items()}, samples)
        yield from _checks_rows(what, checks, samples)
        few = max(1, samples // 20)
        steps = costs_us({count: room.compute for count, room in rooms.items()}, few)
        yield from _step_rows(what, steps)
        yield _questions_row(what, rooms[COUNTS[-1]], samples)
    for count in COUNTS[1:]:
        yield _aborts_row(count)


def _checks_rows(what: str, cost: dict[int, float], samples: int) -> Iterator[Row]:
    how = (
        f"safe point, deadlines and resolve_waiting_queue_bootstrap; median of {samples} x {BATCH}"
    )
    for count, value in cost.items():
        target = TARGET_US if count == COUNTS[-1] else None
        yield _row(f"abort checks a step, {count:,} {what}", target, value, "us", how)
    ratio = cost[COUNTS[-1]] / cost[COUNTS[0]]
    name = f"abort checks a step, {COUNTS[-1]:,} to {COUNTS[0]:,} {what}"
    yield _row(name, TARGET_RATIO, ratio, "ratio", "of the medians, in one run")


def _step_rows(what: str, cost: dict[int, float]) -> Iterator[Row]:
    for count, value in cost.items():
        how = "one whole step around a chunk, without the model and the links"
        yield _row(f"scheduler step, {count:,} {what}", None, value, "us", how)


def _questions_row(what: str, room: WaitingRoom, samples: int) -> Row:
    """The clock moves: every room is asked for once a second, and answered."""
    times, pending = [], room.answers(room.core.take_effects())
    for _ in range(max(200, samples)):
        room.now_ns += STEP_NS
        began_ns = time.thread_time_ns()
        room.recv(pending)
        room.abort_checks()
        times.append((time.thread_time_ns() - began_ns) / 1e3)
        pending = room.answers(room.core.take_effects())
    how = f"abort checks with all questions and answers that fall due, mean of {len(times)} steps"
    name = f"abort checks and peers' answers in 10 ms, {COUNTS[-1]:,} {what}"
    return _row(name, None, statistics.mean(times), "us", how)


def _aborts_row(count: int) -> Row:
    room = WaitingRoom(count, bootstrapped=True)
    aborts = room.aborts(range(1, count + 1, count // NUM_ABORTS))
    assert len(aborts) == NUM_ABORTS
    began_ns = time.thread_time_ns()
    room.recv(aborts)
    room.abort_checks()
    took_ms = (time.thread_time_ns() - began_ns) / 1e6
    assert room.core.queues()["waiting"] == count - NUM_ABORTS
    how = "from their arrival to everything released, decode told and answered; once"
    return _row(f"{NUM_ABORTS:,} aborts at once among {count:,} waiting", None, took_ms, "ms", how)


def _row(name: str, at_most: float | None, value: float, unit: str, how: str) -> Row:
    target = "" if at_most is None else f"<= {at_most:g}"
    passed = None if at_most is None else value <= at_most
    return Row(name=name, target=target, value=round(value, 2), unit=unit, passed=passed, how=how)


def _line(row: Row) -> str:
    verdict = {True: "reached", False: "missed", None: ""}[row.passed]
    return f"{row.name:<62} {row.value:>10,.2f} {row.unit:<5} {row.target:>6} {verdict}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, as a list")
    parser.add_argument(
        "--quick", action="store_true", help="fewer samples: does it run, not how fast"
    )
    args = parser.parse_args(argv)
    gc.disable()  # a full collection walks over all that waits; it is no part of a step
    rows = []
    for row in measure(20 if args.quick else 400):
        print(msgspec.json.encode(row).decode(), flush=True)
        rows.append(row)
    print("\n".join(_line(row) for row in rows), file=sys.stderr)
    if args.json is not None:
        args.json.write_bytes(msgspec.json.encode(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
