"""A folder of scenarios is one call with one summary."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chaos.errors import OutNotEmpty, ScenarioError, UsageError
from chaos.suite import Suite, load_suite, run_suite, worst

HOME = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).with_name("standin")
MAIN = """
import sys
from pathlib import Path
from chaos.suite import load_suite, run_suite
from chaos.worker import ENVIRONMENT
ENVIRONMENT["PYTHONPATH"] = sys.argv[1]
sys.exit(run_suite(load_suite(Path(sys.argv[2]), None, {}), Path(sys.argv[3]), None))
"""
QUIET = """
name: {name}
deployment: {{worker: {{max_total_tokens: 4096, nice: 0}}}}
load: {{duration_s: 1, warmup_s: 0.2, capacity_share: 0.5, request_timeout_s: 5}}
method: []
"""


@pytest.mark.parametrize(
    ("codes", "expected"),
    [([0, 0], 0), ([0, 4], 4), ([3, 4], 3), ([1, 3, 4], 1), ([1, 5], 5), ([1, 130], 130), ([], 0)],
)
def test_the_worst_exit_code_stands_for_all(codes: list[int], expected: int) -> None:
    assert worst(codes) == expected


def test_an_empty_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no scenario"):
        load_suite(tmp_path, None, {})


def test_one_bad_scenario_is_an_error_of_the_whole_suite(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(QUIET.format(name="a"))
    (tmp_path / "b.yaml").write_text("name: b\nmethd: []\n")
    with pytest.raises(ScenarioError, match="methd"):
        load_suite(tmp_path, None, {})


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(QUIET.format(name="a"))
    with pytest.raises(OutNotEmpty):
        run_suite(load_suite(tmp_path, None, {}), tmp_path, None)


def test_every_scenario_runs_and_is_summed_up(tmp_path: Path) -> None:
    """Around stand-in workers, whose evidence is too thin to pass: the suite says so and goes on."""
    folder, out = tmp_path / "scenarios", tmp_path / "out"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text(QUIET.format(name=name))
    done = subprocess.run(
        [sys.executable, "-c", MAIN, f"{STANDIN}{os.pathsep}{HOME}", str(folder), str(out)],
        cwd=HOME,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    suite = msgspec.json.decode((out / "suite.json").read_bytes(), type=Suite)
    assert [row.scenario for row in suite.rows] == ["one", "two"], done.stdout
    assert all((out / name / "verdict.json").exists() for name in ("one", "two"))
    assert suite.exit_code == done.returncode == worst([row.exit_code or 0 for row in suite.rows])
    assert done.returncode != 0
