"""Wall time of the main job: ``severance run chaos/scenarios/pd-partition.yaml``, as a user starts it.

python -m bench.main_job
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.command import progress, run_command
from bench.row import BenchRow, at_most, make_row, not_measured
from bench.run import ROOT
from chaos.verdict import RunStatus, Verdict

SCENARIO = "chaos/scenarios/pd-partition.yaml"
MAX_WALL_S = 90.0
WITHIN_S = 150.0


def measure(quick: bool) -> Iterator[BenchRow]:
    """``quick`` changes nothing: there is one main job."""
    progress(f"severance run {SCENARIO}")
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        argv = [sys.executable, "-m", "severance", "run", SCENARIO, "--out", str(out)]
        began_s = time.monotonic()
        subprocess.run(argv, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=WITHIN_S, check=False)
        wall_s = time.monotonic() - began_s
        verdict = msgspec.json.decode((out / "verdict.json").read_bytes(), type=Verdict)
    yield _row(verdict, wall_s)


def _row(verdict: Verdict, wall_s: float) -> BenchRow:
    """Only a run that passed counts."""
    target = at_most(MAX_WALL_S)
    if verdict.status is not RunStatus.PASSED:
        bad = ", ".join(
            check.id for check in verdict.checks if check.status not in ("pass", "unobservable")
        )
        why = f"the run is {verdict.status} ({bad or verdict.reason})"
        return not_measured("main_job.wall", str(target), "s", why)
    return make_row(
        "main_job.wall",
        wall_s,
        "s",
        target,
        f"from the command to its exit, warm; {verdict.requests.total} requests, {verdict.aborts.count} "
        f"aborts, {len(verdict.faults)} faults, verdict {verdict.status}",
        samples=1,
    )


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))
