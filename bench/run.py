"""Runs benchmarks one after the other, each in a process of its own, bounded in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.plan import Benchmark
from bench.report import BenchResult
from bench.row import BenchRow, not_measured

ROOT = Path(__file__).resolve().parent.parent
END_WITHIN_S = 10.0


def run_benchmark(benchmark: Benchmark, quick: bool) -> BenchResult:
    """Its rows; one row that says "not measured" if it failed, took too long or said nothing."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="severance-bench-") as directory:
        rows_file = Path(directory) / "rows.json"
        error = _run_process(benchmark, rows_file, quick)
        rows = _read_rows(rows_file)
    error = error or ("" if rows else "it measured nothing")
    if error:
        rows = (*rows, not_measured(benchmark.name, "", "", error))
    seconds = time.monotonic() - began
    return BenchResult(name=benchmark.name, seconds=round(seconds, 1), rows=rows, error=error)


def run_all(
    benchmarks: list[Benchmark], quick: bool, on_result: Callable[[BenchResult], None]
) -> list[BenchResult]:
    """In order; the plan's names and times go to stderr as they begin."""
    results = []
    for number, benchmark in enumerate(benchmarks, 1):
        head = f"[{number}/{len(benchmarks)}] {benchmark.name}: {benchmark.about}"
        print(f"{head} (at most {benchmark.within_s:.0f} s)", file=sys.stderr, flush=True)
        results.append(run_benchmark(benchmark, quick))
        on_result(results[-1])
    return results


def _run_process(benchmark: Benchmark, rows_file: Path, quick: bool) -> str:
    argv = [sys.executable, "-m", f"bench.{benchmark.name}", *benchmark.options]
    argv += ["--json", str(rows_file)]
    process = subprocess.Popen(
        argv + ["--quick"] * quick, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(benchmark.within_s)
    except subprocess.TimeoutExpired:
        return f"it did not end within {benchmark.within_s:.0f} s"
    finally:
        _end_group(process)
    return f"it failed with exit code {process.returncode}" if process.returncode else ""


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End it and whatever it left in its process group; also when the run itself is interrupted."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _read_rows(path: Path) -> tuple[BenchRow, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[BenchRow, ...])
    except (OSError, msgspec.DecodeError):
        return ()
