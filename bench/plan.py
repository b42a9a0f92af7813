"""Which benchmarks there are, in the order in which they run."""

from __future__ import annotations

import msgspec


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """``python -m bench.NAME OPTIONS``; after ``within_s`` it is ended and counts as not measured."""

    name: str
    about: str
    within_s: float
    options: tuple[str, ...] = ()


BENCHMARKS = (
    Benchmark(name="abort_latency", about="abort to free KV pages", within_s=240),
    Benchmark(name="step_cost", about="abort checks of a scheduling step", within_s=120),
    Benchmark(name="kv_transfer", about="KV pages from prefill to decode", within_s=150),
    Benchmark(
        name="cuts",
        about="cut links: what is lost, what is aborted",
        within_s=420,
        options=("--delay-seconds", "60"),
    ),
    Benchmark(name="decode_steps", about="decode steps beside busy prefill", within_s=90),
    Benchmark(name="tracing", about="throughput with and without spans", within_s=180),
    Benchmark(name="load_driver", about="lag of the load driver", within_s=90),
    Benchmark(
        name="memory",
        about="memory after many aborts",
        within_s=300,
        options=("--requests", "3000", "--first", "500"),
    ),
    Benchmark(name="simulator_speed", about="schedules a minute", within_s=90),
    Benchmark(name="main_job", about="wall time of the main job", within_s=180),
)
