"""The load driver on one core: live streams, and how late it sends and aborts.

    python -m bench.load_driver

The real ``severance load`` on a core of its own, against a stub on another that streams a token every
20 ms. A stub that is late itself makes the figures worthless, and the rows say so.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.command import progress, run_command
from bench.row import BenchRow, Target, at_least, at_most, make_row, not_measured
from bench.run import ROOT
from bench.sse_stub import StubStats

REQUEST_RATE = 200
NUM_TOKENS = 300
ITL_MS = 20
LIFE_S = NUM_TOKENS * ITL_MS / 1e3
PLATEAU_S = 14
DRAIN_S = 40
MAX_STUB_LATE_MS = 10.0
OUR_ABORTS = ("aborted_disconnect", "aborted_rid", "aborted_deadline")
ABORT_MIX = [
    {"kind": "disconnect", "weight": 1, "after_ms": [500, 5000]},
    {"kind": "rid", "weight": 1, "after_ms": [500, 5000]},
    {"kind": "deadline", "weight": 1, "after_ms": [500, 5000]},
]


class Lags(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of load.json, ms."""

    sent: int
    outcomes: dict[str, int]
    median_send_lag_ms: float
    p99_send_lag_ms: float
    median_abort_lag_ms: float
    p99_abort_lag_ms: float
    median_itl_ms: float
    p99_itl_ms: float


def measure(quick: bool) -> Iterator[BenchRow]:
    duration_s = LIFE_S + (2 if quick else PLATEAU_S)
    progress(f"{REQUEST_RATE} req/s for {duration_s:.0f} s")
    with tempfile.TemporaryDirectory() as directory:
        lags, stats = _run(Path(directory), duration_s)
    yield from _rows(lags, _plateau(stats.live, duration_s), stats)


def _rows(lags: Lags, live: list[int], stats: StubStats) -> Iterator[BenchRow]:
    how = f"one core, {REQUEST_RATE} req/s of {NUM_TOKENS} tokens at {ITL_MS} ms, a fifth aborted"
    num_aborts = sum(count for name, count in lags.outcomes.items() if name in OUR_ABORTS)
    facts: tuple[tuple[str, float, float, str, Target | None, int], ...] = (
        ("live_streams", statistics.fmean(live or [0]), 0, "streams", at_least(1000), len(live)),
        ("send_lag", lags.p99_send_lag_ms, lags.median_send_lag_ms, "ms", at_most(20), lags.sent),
        (
            "abort_lag",
            lags.p99_abort_lag_ms,
            lags.median_abort_lag_ms,
            "ms",
            at_most(5),
            num_aborts,
        ),
        ("token_gap", lags.p99_itl_ms, lags.median_itl_ms, "ms", None, stats.num_frames),
    )
    for name, value, p50, unit, target, samples in facts:
        if stats.late_p99_ms > MAX_STUB_LATE_MS:
            why = f"the stub itself was {stats.late_p99_ms:.0f} ms late (p99): the machine was busy"
            yield not_measured(f"load_driver.{name}", str(target or ""), unit, why)
            continue
        kind = "mean of the plateau" if unit == "streams" else "p99"
        yield make_row(
            f"load_driver.{name}",
            value,
            unit,
            target,
            f"{kind}; {how}; the stub was {stats.late_p99_ms:.1f} ms late (p99)",
            samples=samples,
            p50=None if unit == "streams" else p50,
        )


def _plateau(live: list[int], duration_s: float) -> list[int]:
    """Samples between the first stream's regular end and the last request."""
    first = next((index for index, count in enumerate(live) if count), 0)
    return live[first + round(LIFE_S * 10) : first + round(duration_s * 10)]


def _run(directory: Path, duration_s: float) -> tuple[Lags, StubStats]:
    cores = sorted(os.sched_getaffinity(0))
    stub = _start(["bench.sse_stub", "--itl-ms", str(ITL_MS)], cores[0], subprocess.PIPE)
    assert stub.stdin is not None
    assert stub.stdout is not None
    try:
        port = int(stub.stdout.readline())
        _drive(_start(_load_argv(port, directory, duration_s), cores[-1], None), duration_s)
        stub.stdin.close()
        stats = msgspec.json.decode(stub.stdout.readline(), type=StubStats)
    finally:
        stub.kill()
        stub.wait()
    return msgspec.json.decode((directory / "out" / "load.json").read_bytes(), type=Lags), stats


def _drive(driver: subprocess.Popen[bytes], duration_s: float) -> None:
    try:
        code = driver.wait(duration_s + LIFE_S + DRAIN_S)
    finally:
        driver.kill()
        driver.wait()
    # 4: too much lag to be valid, which is what is measured here
    if code not in (0, 4):
        raise RuntimeError(f"the load driver failed with exit code {code}")


def _start(module: list[str], core: int, pipe: int | None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        stdin=pipe,
        stdout=pipe,
        stderr=None if pipe else subprocess.DEVNULL,
    )
    os.sched_setaffinity(process.pid, {core})
    return process


def _load_argv(port: int, directory: Path, duration_s: float) -> list[str]:
    mix = directory / "mix.json"
    mix.write_bytes(msgspec.json.encode(ABORT_MIX))
    options = {
        "--url": f"http://127.0.0.1:{port}",
        "--out": directory / "out",
        "--request-rate": REQUEST_RATE,
        "--duration": duration_s,
        "--isl-min": 512,
        "--isl-max": 512,
        "--osl-min": NUM_TOKENS,
        "--osl-max": NUM_TOKENS,
        "--abort-share": 0.2,
        "--request-timeout": LIFE_S + 10,
        "--abort-mix": mix,
        "--seed": 1,
    }
    return ["loadtest", "load", *(str(text) for pair in options.items() for text in pair)]


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))
