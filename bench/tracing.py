"""What tracing costs: throughput of a worker that sends spans beside one that sends none.

    python -m bench.tracing

Two real workers live side by side, one with a real span store; they get the same requests in turns
(ABBA), so that each ratio compares neighbors in time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.command import progress, run_command
from bench.requests import make_prompt
from bench.row import BenchRow, at_most, make_row, not_measured
from bench.run import ROOT
from bench.serving import Worker, generate, generate_body, get, workers

NUM_REQUESTS = 24
PROMPT_TOKENS = 300
NEW_TOKENS = 24
CONCURRENCY = 8
MAX_LOSS_PERCENT = 2.0


class StoreStats(msgspec.Struct, frozen=True):
    """What is read of the span store's /stats."""

    spans: int


def measure(quick: bool) -> Iterator[BenchRow]:
    rounds = 2 if quick else 30
    with tempfile.TemporaryDirectory() as name, span_store(Path(name)) as store_port:
        traced_flags = ["--otlp-traces-endpoint", f"http://127.0.0.1:{store_port}/v1/traces"]
        with workers(Path(name), ["--worker-name", "traced", *traced_flags], []) as (traced, plain):
            for worker in (traced, plain):
                _serve_once(worker, 0)
            ratios = [_ratio(traced, plain, number) for number in range(1, rounds + 1)]
            time.sleep(1.0)  # the last spans leave every 200 ms
            num_spans = _num_spans(store_port)
    yield _row(ratios, num_spans)


def _row(ratios: list[float], num_spans: int) -> BenchRow:
    """``ratios``: throughput with tracing to without."""
    target = at_most(MAX_LOSS_PERCENT)
    if num_spans < len(ratios) * NUM_REQUESTS:
        why = f"only {num_spans} spans arrived: tracing was not on"
        return not_measured("tracing.throughput_lost", str(target), "%", why)
    low, _, high = statistics.quantiles(ratios, n=4)
    return make_row(
        "tracing.throughput_lost",
        (1 - statistics.median(ratios)) * 100,
        "%",
        target,
        f"{len(ratios)} pairs of turns of {NUM_REQUESTS} requests ({PROMPT_TOKENS} in, {NEW_TOKENS} out, "
        f"{CONCURRENCY} at a time); median of the pairs' ratios, quartiles {(1 - high) * 100:.1f} to "
        f"{(1 - low) * 100:.1f}; {num_spans} spans kept",
        samples=len(ratios),
    )


def _ratio(traced: Worker, plain: Worker, number: int) -> float:
    """Time without tracing to time with it, the first of the two by turns."""
    order = (traced, plain) if number % 2 else (plain, traced)
    took = {worker.port: _serve_once(worker, number) for worker in order}
    progress(f"pair {number}: {took[plain.port] / took[traced.port]:.3f}")
    return took[plain.port] / took[traced.port]


def _serve_once(worker: Worker, number: int) -> float:
    """Seconds for one turn's requests."""
    bodies = [
        generate_body(make_prompt(number * NUM_REQUESTS + index, PROMPT_TOKENS), NEW_TOKENS)
        for index in range(NUM_REQUESTS)
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        answers = list(pool.map(lambda body: generate(worker.port, body), bodies))
    took = time.monotonic() - began
    if any(len(answer.output_ids) != NEW_TOKENS for answer in answers):
        raise RuntimeError("an answer is short: the turns cannot be compared")
    return took


@contextmanager
def span_store(directory: Path) -> Iterator[int]:
    """A real span store; its port."""
    argv = ["severance", "spanstore", "--db", str(directory / "spans.sqlite"), "--port", "0"]
    process = subprocess.Popen([sys.executable, "-m", *argv], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().decode().rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _num_spans(port: int) -> int:
    return msgspec.json.decode(get(port, "/stats")[1], type=StoreStats).spans


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))
