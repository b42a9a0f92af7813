"""How long after an abort has arrived are the KV pages of a chunked prefill free?

    python -m bench.abort_latency

A real loop, I/O thread and model in one process. A long prompt prefills in chunks of 256 tokens; at a random
moment within a chunk its abort is sent over ipc; the time runs from the send to the release at the
safe point. ``shared``: beside a living request, whose batch runs to its end.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec

from bench.command import progress, run_command
from bench.loop_bench import LoopBench, WatchedRunner, loop_bench
from bench.neighbor import busy_neighbor
from bench.requests import make_abort, make_prompt, make_request
from bench.row import BenchRow, Target, at_most, make_row, percentile
from engine.core.batch import ForwardItem, ForwardResult, ShouldStop, never
from engine.model.config import TINY
from engine.model.runner import ModelRunner
from engine.server.args import AbortGranularity

CHUNK = 256
PROMPT = 8 * CHUNK + 1
NUM_PAGES = 400
SLACK_MS = 2.0
MAX_SHARE = {4: 0.3, 30: 0.1}
NUM_ABORTS = {4: 100, 30: 50}
MAX_SHARED_SHARE = 1.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """``shared``: beside a living request in every batch. ``busy``: beside a busy process."""

    layers: int
    granularity: AbortGranularity
    shared: bool = False
    busy: bool = False

    @property
    def name(self) -> str:
        return f"abort_latency.{self.layers}_layers.{self.granularity}" + (
            ".shared" * self.shared + ".busy" * self.busy
        )

    @property
    def max_share(self) -> float | None:
        """Of a chunk; None where there is nothing to reach (an abort by chunk is the comparison)."""
        if self.granularity is AbortGranularity.CHUNK:
            return None
        return MAX_SHARED_SHARE if self.shared else MAX_SHARE[self.layers]


class TimedRunner(WatchedRunner):
    """Notes who has begun to compute, and how long full chunks took."""

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self.begun: set[str] = set()
        self.full_ns: list[int] = []

    def forward(
        self, items: Sequence[ForwardItem], should_stop: ShouldStop = never
    ) -> ForwardResult:
        began_ns = time.monotonic_ns()
        self.begun |= {item.rid for item in items}
        result = self._runner.forward(items, should_stop)
        if isinstance(result, list) and len(items[-1].input_ids) == CHUNK:
            self.full_ns.append(time.monotonic_ns() - began_ns)
        return result


def measure(quick: bool) -> Iterator[BenchRow]:
    for layers in (TINY.num_hidden_layers, 30):
        config = msgspec.structs.replace(TINY, num_hidden_layers=layers)
        runner = ModelRunner(config, NUM_PAGES, 16, "float32", seed=0)
        for case in _cases(layers):
            progress(case.name)
            with busy_neighbor() if case.busy else nullcontext():
                yield _measure_case(runner, case, 5 if quick else NUM_ABORTS[layers])


def _cases(layers: int) -> list[Case]:
    return [
        Case(layers=layers, granularity=AbortGranularity.LAYER),
        Case(layers=layers, granularity=AbortGranularity.LAYER, busy=True),
        Case(layers=layers, granularity=AbortGranularity.LAYER, shared=True),
        Case(layers=layers, granularity=AbortGranularity.CHUNK),
        Case(layers=layers, granularity=AbortGranularity.CHUNK, busy=True),
    ]


def _measure_case(runner: ModelRunner, case: Case, num_aborts: int) -> BenchRow:
    """One row: ``num_aborts`` aborts, one request at a time."""
    draw = random.Random(case.layers)
    timed = TimedRunner(runner)
    with (
        tempfile.TemporaryDirectory() as directory,
        loop_bench(timed, Path(directory), case.granularity, NUM_PAGES) as bench,
    ):
        bench.send(make_request("warm", make_prompt(0, PROMPT), 1))
        bench.answer("warm")
        if case.shared:
            bench.send(make_request("alive", (1, 2, 3), 4_000))
        chunk_ns = statistics.median(timed.full_ns)
        took_ms = [
            _abort_once(bench, timed, f"r{number}", draw, chunk_ns) / 1e6
            for number in range(num_aborts)
        ]
    return _row(case, took_ms, statistics.median(timed.full_ns) / 1e6)


def _row(case: Case, took_ms: list[float], chunk_ms: float) -> BenchRow:
    p50, p99 = percentile(took_ms, 50), percentile(took_ms, 99)
    where = "beside a process that keeps a core busy" if case.busy else "alone"
    return make_row(
        case.name,
        p99,
        "ms",
        _target(case, chunk_ms),
        f"p99 of abort in the I/O thread to KV pages free, mid-chunk, {where}; a chunk of {CHUNK} takes "
        f"{chunk_ms:.1f} ms, so p50 is {p50 / chunk_ms:.2f} and p99 {p99 / chunk_ms:.2f} of one",
        samples=len(took_ms),
        p50=p50,
    )


def _target(case: Case, chunk_ms: float) -> Target | None:
    share = case.max_share
    if share is None:
        return None
    slack_ms = 0.0 if case.shared else SLACK_MS
    limit = share * chunk_ms + slack_ms
    slack = f" + {slack_ms:g} ms" if slack_ms else ""
    return at_most(limit, f"<= {limit:.1f} ms ({share:g} of a chunk{slack})")


def _abort_once(
    bench: LoopBench, timed: TimedRunner, rid: str, draw: random.Random, chunk_ns: float
) -> int:
    bench.send(make_request(rid, make_prompt(draw.randrange(100), PROMPT), 1))
    while rid not in timed.begun:
        time.sleep(0.0002)
    time.sleep((1 + draw.random()) * chunk_ns / 1e9)
    bench.send(make_abort(rid))
    _, last = bench.answer(rid)
    if last.finish is None or last.finish.abort is None:
        raise RuntimeError("the request ended before its abort: nothing was measured")
    return last.finish.abort.released_ns - last.finish.abort.received_ns


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))
