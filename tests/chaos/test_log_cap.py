"""Logs stay within a size while a program writes on into the same file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from chaos.log_cap import LogCap
from chaos.process import Launcher

LINE = b"x" * 99 + b"\n"


def test_a_long_log_keeps_its_end_and_begins_again(tmp_path: Path) -> None:
    log = tmp_path / "p0.log"
    log.write_bytes(b"first\n" + LINE * 200 + b"last\n")
    cap = LogCap(tmp_path, max_bytes=1_000)
    assert cap.look() == [log]
    assert log.read_bytes() == b""
    kept = (tmp_path / "p0.log.1").read_bytes()
    assert kept.endswith(LINE + b"last\n")
    assert kept.startswith(LINE), "whole lines only"
    assert len(kept) <= 1_000


def test_a_short_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "p0.log"
    log.write_bytes(LINE * 10)
    assert LogCap(tmp_path, max_bytes=1_000).look() == []
    assert log.read_bytes() == LINE * 10


def test_without_the_directory_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert LogCap(tmp_path / "none").look() == []


def test_a_program_that_never_stops_talking(launcher: Launcher, tmp_path: Path) -> None:
    """It appends: after the cut it goes on at the beginning, and leaves no hole of zeros."""
    talk = "import sys\nfor i in range(10**9): print(f'line {i:09d}')"
    process = launcher.start("p0", [sys.executable, "-u", "-c", talk])
    cap = LogCap(launcher.logs, max_bytes=50_000, period_s=0.05)
    cap.start()
    older, cuts = launcher.logs / "p0.log.1", set()
    deadline = time.monotonic() + 15
    while len(cuts) < 3 and time.monotonic() < deadline:
        if older.exists():
            cuts.add(older.stat().st_mtime_ns)
        time.sleep(0.01)  # another process writes; there is no event to await
    launcher.stop(process)
    cap.stop()
    assert len(cuts) >= 3
    cap.look()
    assert process.log.stat().st_size <= 50_000
    assert older.stat().st_size <= 50_000
    lines = [line for line in process.log.read_bytes().splitlines() if line]
    assert all(line.startswith(b"line ") or line == lines[0] for line in lines)
    assert b"\0" not in process.log.read_bytes()
