"""A small fleet on paper: its figures are those of its schedule."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import msgspec

from engine.simulator.draw import Size
from engine.simulator.scale.fleet import draw_fleet, growing
from engine.simulator.scale.measure import measure
from engine.simulator.scale.table import table

ROOT = Path(__file__).parents[3]
SIZE = Size(num_prefill=6, num_decode=6, num_requests=600)


def test_a_fleet_is_measured_and_clean() -> None:
    answered = []
    report = measure(1, SIZE, lambda _, num_answered: answered.append(num_answered))
    assert report.violation is None
    assert answered[-1] == 2 * SIZE.num_requests
    assert report.num_sessions == 36
    assert 100 < report.beats_a_second <= 36 * 2 * 40
    assert report.beat_bytes_a_second > 50 * report.beats_a_second
    assert report.num_detected >= 6, "each of the two that died had met everybody"
    assert 1200 < report.detect_ms[0] <= report.detect_ms[1] < 1800
    assert 0 < report.abort_ms[0] <= report.abort_ms[1] < 50
    assert 0 < report.peer_abort_ms[0] < 1000
    assert sum(p50 > 0 for p50, _ in report.step_us.values()) >= 2


def test_the_same_seed_measures_the_same_fleet() -> None:
    small = Size(num_prefill=2, num_decode=2, num_requests=300)
    first, second = (measure(4, small, lambda *_: None) for _ in range(2))
    timed = {"step_us": {}, "took_cpu_s": 0.0}
    assert msgspec.structs.replace(first, **timed) == msgspec.structs.replace(second, **timed)


def test_fleets_grow_with_the_same_work_a_worker() -> None:
    sizes = growing(Size(num_prefill=500, num_decode=500, num_requests=100_000))
    assert [size.num_prefill for size in sizes] == [10, 50, 200, 500]
    assert {size.num_requests / size.num_prefill for size in sizes} == {200}


def test_nobody_is_sent_to_a_worker_that_is_down() -> None:
    schedule = draw_fleet(2, SIZE)
    (first, *_) = schedule.faults
    down = {target for fault in schedule.faults for target in fault.targets}
    chosen = [
        {f"p{request.prefill}", f"d{request.decode}"} & down
        for request in schedule.requests
        if first.at_ms <= request.at_ms < first.at_ms + first.for_ms
    ]
    assert chosen
    assert not any(chosen)


def test_the_table_has_a_column_a_fleet() -> None:
    report = measure(3, Size(num_prefill=1, num_decode=1, num_requests=20), lambda *_: None)
    assert math.isnan(report.detect_ms[0]), "the only worker of a role does not die"
    lines = table([report, report])
    assert lines[0] == "| fleet | 1P1D | 1P1D |"
    assert all(line.count("|") == 4 for line in lines)


def test_a_large_fleet_is_measured_by_the_command() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "severance", "simulate", "--seed", "5"),
            *("--prefill", "20", "--decode", "20", "--requests", "100"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "| fleet | 1P1D | 2P2D | 8P8D | 20P20D |" in done.stdout
    assert "crash to verdict" in done.stdout
