"""``severance simulate`` as its users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engine.simulator.draw import Size, draw_schedule
from engine.simulator.schedule import save

ROOT = Path(__file__).parents[3]


def run_simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "severance", "simulate", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def test_search_says_what_it_did() -> None:
    done = run_simulate("--schedules", "3", "--seed", "11", "--requests", "10")
    assert done.returncode == 0, done.stderr
    assert "seed 11: 3 schedules of 2P2D, 10 requests each" in done.stdout
    assert "30 requests" in done.stdout
    assert "clean: every law held" in done.stdout


def test_replay_prints_a_log(tmp_path: Path) -> None:
    save(draw_schedule(3, Size(num_requests=4)), tmp_path / "s.json")
    done = run_simulate("--replay", str(tmp_path / "s.json"))
    assert done.returncode == 0, done.stderr
    assert "seed 3: 2P2D, 4 requests" in done.stdout
    assert " END " in done.stdout


def test_bad_input_says_what_to_do(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    done = run_simulate("--replay", str(bad))
    assert done.returncode == 2
    assert "is no schedule" in done.stderr
    assert run_simulate("--schedules", "0").returncode == 2
