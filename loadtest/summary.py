"""`load.json` and `capacity.json`: what came out of a load, in the names of vLLM and SGLang."""

from __future__ import annotations

import math
import statistics
from array import array
from pathlib import Path

import msgspec

from loadtest.history import Outcome
from loadtest.stats import LoadStats

SCHEMA = "severance.load/1"


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """`capacity.json`: what a closed loop got through. ``requests``: completed ones."""

    tokens_per_s: float
    req_per_s: float
    requests: int
    duration_s: float


class LoadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Head of `load.json`; the latencies follow beside it (``mean_ttft_ms``, ``p99_itl_ms`` ...).

    ``valid`` False: the driver sent too late, so the latencies tell of the driver, not of the server.
    ``outcomes`` and ``hung`` add up to ``sent``. ``spans_dropped``: client spans that did not arrive.
    """

    schema: str
    run_id: str
    seed: int
    valid: bool
    interrupted: bool
    duration: float
    sent: int
    completed: int
    hung: int
    outcomes: dict[Outcome, int]
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float
    output_throughput: float
    request_goodput: float
    spans_dropped: int


def summarize(
    stats: LoadStats,
    *,
    run_id: str,
    seed: int,
    duration_s: float,
    max_send_lag_ms: float,
    interrupted: bool,
    spans_dropped: int,
) -> LoadSummary:
    """``duration_s``: from the start to the end of the last request."""
    per_s = 1 / duration_s if duration_s > 0 else 0.0
    completed = stats.outcomes[Outcome.COMPLETED]
    return LoadSummary(
        schema=SCHEMA,
        run_id=run_id,
        seed=seed,
        valid=percentile(sorted(stats.send_lag_ms), 99) <= max_send_lag_ms,
        interrupted=interrupted,
        duration=duration_s,
        sent=stats.num_sent,
        completed=completed,
        hung=stats.num_hung,
        outcomes={outcome: stats.outcomes[outcome] for outcome in Outcome},
        total_input_tokens=stats.num_input_tokens,
        total_output_tokens=stats.num_output_tokens,
        request_throughput=completed * per_s,
        output_throughput=stats.num_output_tokens * per_s,
        request_goodput=stats.num_good * per_s,
        spans_dropped=spans_dropped,
    )


def latencies(stats: LoadStats) -> dict[str, float]:
    """Flat keys ``{mean,median,std,p90,p95,p99,max}_{metric}_ms``; 0 where there is no sample."""
    samples = {
        "ttft_ms": stats.ttft_ms,
        "tpot_ms": stats.tpot_ms,
        "itl_ms": stats.itl_ms,
        "e2el_ms": stats.e2el_ms,
        "send_lag_ms": stats.send_lag_ms,
        "abort_lag_ms": stats.abort_lag_ms,
    }
    return {
        f"{name}_{metric}": value
        for metric, values in samples.items()
        for name, value in _describe(values).items()
    }


def write_summary(path: Path, summary: LoadSummary, flat: dict[str, float]) -> None:
    document = {**msgspec.to_builtins(summary), **flat}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def write_capacity(path: Path, capacity: Capacity) -> None:
    path.write_bytes(msgspec.json.encode(capacity) + b"\n")


def percentile(ordered: list[float], percent: float) -> float:
    """Of ascending values: the smallest that at least ``percent`` of them do not exceed. Empty: 0."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _describe(values: array[float]) -> dict[str, float]:
    ordered = sorted(values)
    mean = statistics.fmean(ordered) if ordered else 0.0
    return {
        "mean": mean,
        "median": percentile(ordered, 50),
        "std": statistics.pstdev(ordered, mean) if ordered else 0.0,
        "p90": percentile(ordered, 90),
        "p95": percentile(ordered, 95),
        "p99": percentile(ordered, 99),
        "max": ordered[-1] if ordered else 0.0,
    }
