"""A benchmark is a process: what it says, how it fails, and that nothing of it is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.plan import BENCHMARKS, Benchmark
from bench.report import BenchResult
from bench.run import ROOT, run_benchmark

Run = Callable[..., BenchResult]
ROW = "make_row('one', 1.0, 'ms', at_most(2), 'how', samples=1)"
HEAD = """
import os, subprocess, sys, time
from bench.command import run_command
from bench.row import at_most, make_row
def measure(quick):
{body}
sys.exit(run_command(measure, '', sys.argv[1:]))
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a benchmark of that body: ``bench.made_here`` is found on a path of the child's own."""

    def run_body(body: str, within_s: float = 15) -> BenchResult:
        package = tmp_path / "bench"
        package.mkdir()
        here = str(ROOT / "bench")
        (package / "__init__.py").write_text(f"__path__.append({here!r})\n")
        (package / "made_here.py").write_text(HEAD.format(body=body))
        monkeypatch.setattr("bench.run.ROOT", tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        return run_benchmark(Benchmark(name="made_here", about="", within_s=within_s), quick=False)

    return run_body


def test_rows_come_back(run: Run) -> None:
    result = run(f"    yield {ROW}")
    assert (result.error, [row.name for row in result.rows]) == ("", ["one"])
    assert result.rows[0].passed


def test_one_that_fails_half_way_is_not_a_pass(run: Run) -> None:
    result = run(f"    yield {ROW}\n    raise SystemExit(1)")
    assert [(row.name, row.passed) for row in result.rows] == [("one", True), ("made_here", False)]
    assert "exit code 1" in result.error


def test_one_that_says_nothing_is_not_a_pass(run: Run) -> None:
    result = run("    yield from ()")
    assert [row.passed for row in result.rows] == [False]
    assert "nothing" in result.rows[0].how


def test_one_that_hangs_is_ended_with_its_children(run: Run, tmp_path: Path) -> None:
    body = f"""
    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
    open({str(tmp_path / "pid")!r}, 'w').write(str(child.pid))
    yield {ROW}
    time.sleep(60)
"""
    began = time.monotonic()
    result = run(body, within_s=8)
    assert time.monotonic() - began < 18
    assert [row.passed for row in result.rows] == [True, False]
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while _is_running(pid):
        assert time.monotonic() < deadline, "its child lives on"
        time.sleep(0.02)


def _is_running(pid: int) -> bool:
    """A zombie has ended; whose child it is now collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_every_benchmark_of_the_plan_is_a_module() -> None:
    names = [item.name for item in BENCHMARKS]
    assert len(set(names)) == len(names)
    assert [name for name in names if not (ROOT / "bench" / f"{name}.py").exists()] == []


def test_bench_imports_no_tests() -> None:
    """But for cuts.py, which shares its pair and its traffic with the tests of the same cuts."""
    files = sorted((ROOT / "bench").glob("*.py"))
    assert len(files) > 20
    assert [path.name for path in files if "from tests" in path.read_text()] == ["cuts.py"]
