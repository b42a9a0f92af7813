"""Measure the speed targets: ``python -m bench [--only NAME] [--quick] [--page FILE]``."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import msgspec

from bench.machine import describe_machine
from bench.page import write_page
from bench.plan import BENCHMARKS
from bench.report import SCHEMA, BenchResult, Report, load, merge, save
from bench.run import ROOT, run_all
from bench.table import render_text

EXIT_MISSED = 1
EXIT_USAGE = 2
RESULTS = ROOT / "bench" / "results"
_EPILOG = """\
Every run leaves its rows in bench/results/. Exit codes: 0 every target reached, 1 one was missed or not
measured, 2 wrong usage, 130 interrupted. Use a quiet machine: beside others, times mean little."""


def main(argv: list[str]) -> int:
    """Returns the exit code."""
    args = _parse(argv)
    old = None
    if args.page and (args.quick or (args.only and not args.merge)):
        return _refuse(
            "--page publishes whole runs: leave out --quick, and give --merge with --only"
        )
    if args.merge:
        try:
            old = load(args.merge)
        except (OSError, msgspec.DecodeError) as error:
            return _refuse(f"--merge: {args.merge} is no results file: {error}")
    machine = describe_machine()
    if not machine.is_quiet:
        print(f"others use {machine.foreign_cores:g} cores now", file=sys.stderr)
    chosen = [item for item in BENCHMARKS if not args.only or item.name in args.only]
    results = run_all(chosen, args.quick, _show)
    report = Report(
        schema=SCHEMA,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        quick=args.quick,
        machine=machine,
        results=tuple(results),
    )
    return _publish(report, old, args.page)


def _publish(report: Report, old: Report | None, page: Path | None) -> int:
    path = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    save(report, path)
    try:
        whole = merge(old, report) if old else report
        save(whole, path)
        if page:
            write_page(whole, page)
    except ValueError as error:
        return _refuse(f"{error}; this run's rows are in {path.relative_to(ROOT)}")
    print(f"\n{render_text(whole.rows)}\n\nrows: {path.relative_to(ROOT)}")
    return EXIT_MISSED if any(row.passed is False for row in whole.rows) else 0


def _show(result: BenchResult) -> None:
    print(f"\n{render_text(result.rows)}\n({result.seconds:.0f} s)\n", flush=True)


def _refuse(text: str) -> int:
    print(f"bench: {text}", file=sys.stderr)
    return EXIT_USAGE


def _parse(argv: list[str]) -> argparse.Namespace:
    names = "\n".join(f"  {item.name:16} {item.about}" for item in BENCHMARKS)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"Measure the speed targets, one benchmark after the other:\n{names}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[item.name for item in BENCHMARKS],
        metavar="NAME",
        help="this one (repeatable)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="few samples: does everything run, not how fast"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="put the table into this page (docs/performance.md)",
    )
    parser.add_argument(
        "--merge",
        type=Path,
        metavar="FILE",
        help="take what is not measured now from these results",
    )
    return parser.parse_args(argv)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    # The benchmark under way has a session of its own: it must be ended, whatever ends us.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
