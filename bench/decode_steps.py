"""Decode's step times while prefill is busy, in a real pair.

    python -m bench.decode_steps

Streams decode on the decode worker; meanwhile long prompts keep the prefill worker busy, and their pages
arrive at the decode worker. A step is the time from one batch's begin to the next one's, with all
that the loop does in between.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bench.command import progress, run_command
from bench.requests import make_prompt
from bench.row import BenchRow, at_most, make_row, percentile
from bench.serving import HOST, Worker, generate, generate_body, workers
from bench.stepped_scheduler import STEPS_VARIABLE, Step
from chaos.ports import PortPool

NUM_STREAMS = 4
STREAM_TOKENS = 2_000
BUSY_PROMPT = 2_048
QUIET_S = 2.0
WINDOW = 101
MAX_SPREAD = 1.3


class Pair:
    """A prefill and a decode worker, asked as the router asks them."""

    def __init__(self, prefill: Worker, decode: Worker, bootstrap_port: int) -> None:
        self._prefill = prefill
        self._decode = decode
        self._bootstrap_port = bootstrap_port
        self._rooms = itertools.count(1)
        self._lock = threading.Lock()

    def ask(self, prompt: tuple[int, ...], max_new: int) -> int:
        """The same body to both halves; the number of tokens that decode answered."""
        with self._lock:
            room = next(self._rooms)
        body = generate_body(prompt, max_new, room, self._bootstrap_port)
        with ThreadPoolExecutor(2) as pool:
            halves = [
                pool.submit(generate, half.port, body) for half in (self._prefill, self._decode)
            ]
            return len(halves[1].result().output_ids)


def measure(quick: bool) -> Iterator[BenchRow]:
    num_tokens = 600 if quick else STREAM_TOKENS
    with tempfile.TemporaryDirectory() as name:
        steps_file = Path(name) / "steps.json"
        busy_ns = _run(Path(name), steps_file, num_tokens)
        steps = msgspec.json.decode(steps_file.read_bytes(), type=list[Step])
    quiet, busy = spreads(steps, busy_ns)
    alone = percentile(quiet, 99) / percentile(quiet, 50)
    yield make_row(
        "decode_steps.beside_prefill",
        percentile(busy, 99) / percentile(busy, 50),
        "p99/p50",
        at_most(MAX_SPREAD),
        f"{NUM_STREAMS} streams decode while 2,048-token prompts keep prefill busy and their pages arrive; "
        f"each step over the median of the {WINDOW} around it, as contexts grow; without prefill "
        f"{alone:.2f}",
        samples=len(busy),
    )


def _run(directory: Path, steps_file: Path, num_tokens: int) -> tuple[int, int]:
    """From when to when prefill was busy, ns."""
    pool = PortPool(HOST)
    bootstrap, control, kv = (pool.take().port for _ in range(3))
    pool.close()
    os.environ[STEPS_VARIABLE] = str(steps_file)
    prefill_flags = ["--disaggregation-mode", "prefill"]
    prefill_flags += ["--disaggregation-bootstrap-port", str(bootstrap)]
    prefill_flags += ["--disaggregation-control-port", str(control)]
    decode_flags = ["--disaggregation-mode", "decode", "--disaggregation-kv-port", str(kv)]
    stepped = ["-m", "bench.stepped_worker"]
    with (
        workers(directory, prefill_flags) as (prefill,),
        workers(directory, decode_flags, command=stepped) as (decode,),
    ):
        pair = Pair(prefill, decode, bootstrap)
        pair.ask(make_prompt(0, BUSY_PROMPT), 2)
        return _keep_busy(pair, num_tokens)


def _keep_busy(pair: Pair, num_tokens: int) -> tuple[int, int]:
    with ThreadPoolExecutor(NUM_STREAMS) as pool:
        streams = [
            pool.submit(pair.ask, make_prompt(index, 128), num_tokens)
            for index in range(1, NUM_STREAMS + 1)
        ]
        time.sleep(QUIET_S)
        began_ns = time.monotonic_ns()
        num_prompts = 0
        while not any(stream.done() for stream in streams):
            pair.ask(make_prompt(100 + num_prompts, BUSY_PROMPT), 1)
            num_prompts += 1
        ended_ns = time.monotonic_ns()
        if any(stream.result() != num_tokens for stream in streams):
            raise RuntimeError("a stream is short")
    progress(f"{num_prompts} prompts of {BUSY_PROMPT} tokens meanwhile")
    return began_ns, ended_ns


def spreads(steps: list[Step], busy_ns: tuple[int, int]) -> tuple[list[float], list[float]]:
    """Periods of consecutive steps over their local median: before prefill was busy, and while."""
    periods = [
        (later.began_ns, later.began_ns - earlier.began_ns)
        for earlier, later in itertools.pairwise(steps)
    ]
    quiet, busy = [], []
    half = WINDOW // 2
    for index in range(half, len(periods) - half):
        around = [period for _, period in periods[index - half : index + half + 1]]
        began_ns, period = periods[index]
        if began_ns < busy_ns[0]:
            quiet.append(period / statistics.median(around))
        elif began_ns < busy_ns[1]:
            busy.append(period / statistics.median(around))
    return quiet, busy


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))
