"""The command line that every benchmark module has: ``python -m bench.NAME [--json FILE] [--quick]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from bench.row import BenchRow

Measure = Callable[[bool], Iterable[BenchRow]]


def run_command(measure: Measure, about: str, argv: list[str]) -> int:
    """Measure, print a JSON line a row as it comes, and keep all rows so far in FILE.

    ``measure(quick)`` yields rows. Returns 0 also where a target was missed: the rows say that, and any
    other exit code says that not everything was measured.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, as a list")
    parser.add_argument(
        "--quick", action="store_true", help="fewer samples: does it run, not how fast"
    )
    args = parser.parse_args(argv)
    rows: list[BenchRow] = []
    for row in measure(args.quick):
        print(msgspec.json.encode(row).decode(), flush=True)
        rows.append(row)
        if args.json is not None:
            args.json.write_bytes(msgspec.json.encode(rows))
    return 0


def progress(text: str) -> None:
    """A line for whoever waits; never on stdout, which carries rows."""
    print(f"  {text}", file=sys.stderr, flush=True)
