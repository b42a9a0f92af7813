"""`report_growth`: a table of growing fleets, with progress."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

from engine.simulator.draw import Size
from engine.simulator.scale.fleet import growing
from engine.simulator.scale.fleet_report import FleetReport, Quantiles
from engine.simulator.scale.measure import measure

PROGRESS_S = 0.5
PLAIN_PROGRESS_S = 10.0


class _Progress:
    """One line that renews itself on a terminal; now and then a line elsewhere."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._is_terminal = sys.stderr.isatty()
        self._period_s = PROGRESS_S if self._is_terminal else PLAIN_PROGRESS_S
        self._shown_s = time.monotonic()

    def show(self, at_ms: int, num_answered: int) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < self._period_s:
            return
        self._shown_s = now_s
        size = self._size
        text = (
            f"{size.num_prefill}P{size.num_decode}D: {at_ms / 1000:.1f} virtual s,"
            f" {num_answered} of {2 * size.num_requests} halves answered"
        )
        print(text, end="\r" if self._is_terminal else "\n", file=sys.stderr, flush=True)


def report_growth(seed: int, size: Size) -> bool:
    """Measure every fleet, print the table; False if a law was broken."""
    sizes = growing(size)
    names = ", ".join(f"{one.num_prefill}P{one.num_decode}D" for one in sizes)
    print(f"seed {seed}: {names}, {size.num_requests} requests in the last")
    reports = []
    for one in sizes:
        reports.append(measure(seed, one, _Progress(one).show))
        if reports[-1].violation is not None:
            break
    for line in table(reports):
        print(line)
    broken = reports[-1].violation
    if broken is not None:
        print(f"BROKEN {broken}")
    return broken is None


def table(reports: Sequence[FleetReport]) -> list[str]:
    """Markdown: a column a fleet."""
    rows = [
        ("fleet", [f"{one.num_prefill}P{one.num_decode}D" for one in reports]),
        ("requests", [f"{one.num_requests:,}" for one in reports]),
        ("sessions (pairs that met)", [f"{one.num_sessions:,}" for one in reports]),
        ("scheduler steps", [f"{one.num_steps:,}" for one in reports]),
        ("virtual s", [f"{one.virtual_s:.1f}" for one in reports]),
        *_step_rows(reports),
        ("beats/s in all", [f"{one.beats_a_second:,}" for one in reports]),
        ("beats/s a worker", [f"{one.beats_a_second / one.num_workers:,.0f}" for one in reports]),
        ("beat MB/s in all", [f"{one.beat_bytes_a_second / 1e6:,.2f}" for one in reports]),
        (
            "beat kB/s a worker",
            [f"{one.beat_bytes_a_second / one.num_workers / 1e3:,.1f}" for one in reports],
        ),
        ("abort to release here, virtual ms", [_quantiles(one.abort_ms) for one in reports]),
        ("abort here to end there, virtual ms", [_quantiles(one.peer_abort_ms) for one in reports]),
        ("crash to verdict, virtual ms", [_quantiles(one.detect_ms) for one in reports]),
        ("verdicts", [f"{one.num_detected:,}" for one in reports]),
        ("CPU s for all this", [f"{one.took_cpu_s:.0f}" for one in reports]),
    ]
    head, *body = rows
    lines = [_line(*head), "|---" * (len(reports) + 1) + "|"]
    return lines + [_line(*row) for row in body]


def _step_rows(reports: Sequence[FleetReport]) -> list[tuple[str, list[str]]]:
    buckets = sorted({bucket for one in reports for bucket in one.step_us})
    return [
        (
            f"step, {_range(bucket)} queued, CPU us",
            [_quantiles(one.step_us[bucket]) if bucket in one.step_us else "" for one in reports],
        )
        for bucket in buckets
    ]


def _range(bucket: int) -> str:
    return f"{bucket}-{10 * bucket - 1}" if bucket else "none"


def _quantiles(found: Quantiles) -> str:
    return "-" if math.isnan(found[0]) else f"{found[0]:,.1f} / {found[1]:,.1f}"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
