"""The ``severance simulate`` command."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

EXIT_FAILED = 1
EXIT_USAGE = 2
FLEET_WORKERS = 40
"""From here on one run is enough, and what it costs is the question."""
_DESCRIPTION = """\
Run the real scheduler core and the real links of many workers under virtual time.

Workload and faults of every schedule are drawn from its seed. A schedule that breaks a law is shrunk and
written to a file, with the command that replays it. The same seed gives the same run.

A fleet of 40 workers or more (without --schedules) is measured instead: step cost, heartbeats, abort and
detection latency, in a table with smaller fleets beside it. 500+500 workers and 100,000 requests take some
minutes and 3 GB."""


def add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Mount ``simulate``."""
    parser = commands.add_parser(
        "simulate",
        help="search for races: many seeded schedules of requests, aborts and faults, in virtual time",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--schedules", type=_count, metavar="N", help="how many (1000)")
    parser.add_argument(
        "--seed", type=int, help="seed of the first; the others follow (drawn afresh, and printed)"
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one schedule with its log")
    parser.add_argument("--prefill", type=_count, default=2, help="prefill workers (%(default)s)")
    parser.add_argument("--decode", type=_count, default=2, help="decode workers (%(default)s)")
    parser.add_argument(
        "--requests",
        type=_count,
        default=30,
        help="requests a schedule, or of the fleet (%(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), help="directory of found failures (this one)"
    )
    parser.set_defaults(run=run_simulate)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of 1 or more")
    return int(text)


def run_simulate(namespace: argparse.Namespace) -> int:
    """Search or replay; 1 if a law was broken."""
    if namespace.replay is not None:
        return _replay(namespace.replay)
    from engine.simulator.draw import Size
    from engine.simulator.search import search

    size = Size(
        num_prefill=namespace.prefill,
        num_decode=namespace.decode,
        num_requests=namespace.requests,
    )
    seed = namespace.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "big")
    if namespace.schedules is None and size.num_prefill + size.num_decode >= FLEET_WORKERS:
        from engine.simulator.scale.table import report_growth

        return 0 if report_growth(seed, size) else EXIT_FAILED
    return EXIT_FAILED if search(seed, namespace.schedules or 1000, size, namespace.out) else 0


def _replay(path: Path) -> int:
    from engine.simulator.errors import ScheduleError
    from engine.simulator.replay import replay
    from engine.simulator.schedule import load

    try:
        schedule = load(path)
    except ScheduleError as error:
        print(f"severance simulate: {error}", file=sys.stderr)
        return EXIT_USAGE
    outcome, lines = replay(schedule)
    for line in lines:
        print(line)
    return EXIT_FAILED if outcome.violation is not None else 0
