"""How long after an abort has arrived are the KV pages of a chunked prefill free?

    python -m bench.abort_latency [--aborts 60] [--layers 4 30]

A real loop, I/O thread and model in one process. A long prompt prefills in chunks of 256 tokens; at a random
moment within a chunk its abort is sent over ipc; the time runs from the send to the release at the
safe point. ``shared``: beside a living request, whose batch runs to its end. Prints a JSON line a row; ratios
are to the median time of that run's own full chunks.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from engine.core.batch import ForwardItem, ForwardResult, ShouldStop, never
from engine.model.config import TINY
from engine.model.runner import ModelRunner
from engine.server.args import AbortGranularity
from tests.engine.core.twin import make_abort, make_request
from tests.engine.model.drive import make_prompt
from tests.engine.server.loop_bench import LoopBench, WatchedRunner, loop_bench

CHUNK = 256
PROMPT = 8 * CHUNK + 1
NUM_PAGES = 400


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds; ``*_of_chunk``: the same as a share of a full chunk."""

    layers: int
    granularity: str
    shared: bool
    aborts: int
    chunk_ms: float
    p50_ms: float
    p99_ms: float
    p50_of_chunk: float
    p99_of_chunk: float


class TimedRunner(WatchedRunner):
    """Notes who has begun to compute, and how long full chunks took."""

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self.begun: set[str] = set()
        self.full_ns: list[int] = []

    def forward(self, items: list[ForwardItem], should_stop: ShouldStop = never) -> ForwardResult:
        began_ns = time.monotonic_ns()
        self.begun |= {item.rid for item in items}
        result = self._runner.forward(items, should_stop)
        if isinstance(result, list) and len(items[-1].input_ids) == CHUNK:
            self.full_ns.append(time.monotonic_ns() - began_ns)
        return result


def measure(
    runner: ModelRunner,
    granularity: AbortGranularity,
    num_aborts: int,
    seed: int,
    shared: bool = False,
) -> Row:
    """One row: ``num_aborts`` aborts, one request at a time."""
    draw = random.Random(seed)
    timed = TimedRunner(runner)
    with (
        tempfile.TemporaryDirectory() as directory,
        loop_bench(timed, Path(directory), granularity, NUM_PAGES) as bench,
    ):
        bench.send(make_request("warm", None, make_prompt(0, PROMPT), 1, time.monotonic_ns()))
        bench.answer("warm")
        if shared:
            bench.send(make_request("alive", None, (1, 2, 3), 4_000, time.monotonic_ns()))
        chunk_ns = statistics.median(timed.full_ns)
        took = sorted(_abort_once(bench, timed, f"r{n}", draw, chunk_ns) for n in range(num_aborts))
    chunk_ms = statistics.median(timed.full_ns) / 1e6
    p50, p99 = statistics.median(took) / 1e6, took[int(0.99 * (len(took) - 1))] / 1e6
    return Row(
        layers=runner.config.num_hidden_layers,
        granularity=granularity,
        shared=shared,
        aborts=num_aborts,
        chunk_ms=round(chunk_ms, 2),
        p50_ms=round(p50, 2),
        p99_ms=round(p99, 2),
        p50_of_chunk=round(p50 / chunk_ms, 3),
        p99_of_chunk=round(p99 / chunk_ms, 3),
    )


def _abort_once(
    bench: LoopBench, timed: TimedRunner, rid: str, draw: random.Random, chunk_ns: float
) -> int:
    prompt = make_prompt(draw.randrange(100), PROMPT)
    bench.send(make_request(rid, None, prompt, 1, time.monotonic_ns()))
    while rid not in timed.begun:
        time.sleep(0.0002)
    time.sleep((1 + draw.random()) * chunk_ns / 1e9)
    bench.send(make_abort(rid, time.monotonic_ns()))
    _, last = bench.answer(rid)
    assert last.finish is not None
    assert last.finish.abort is not None, "the request ended before its abort"
    return last.finish.abort.released_ns - last.finish.abort.received_ns


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--aborts", type=int, default=60)
    parser.add_argument("--layers", type=int, nargs="+", default=[TINY.num_hidden_layers, 30])
    args = parser.parse_args(argv)
    for layers in args.layers:
        config = msgspec.structs.replace(TINY, num_hidden_layers=layers)
        runner = ModelRunner(config, NUM_PAGES, 16, "float32", seed=0)
        kinds = [(granularity, False) for granularity in AbortGranularity]
        for granularity, shared in [*kinds, (AbortGranularity.LAYER, True)]:
            row = measure(runner, granularity, args.aborts, layers, shared)
            print(msgspec.json.encode(row).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
