"""The runner against our own engine that somebody else started, knowing nothing but the target file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chaos import proc
from chaos.endpoints import UpEndpoints
from chaos.heal import unhealed
from chaos.http import is_ok
from chaos.records import RunInfo
from chaos.target import endpoint_of, load_target
from chaos.target_deployment import TargetDeployment
from chaos.verdict import CheckStatus, RunStatus, Verdict

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(150)]
HOME = Path(__file__).resolve().parents[2]
STORM = HOME / "docs" / "examples" / "abort-storm.yaml"


def test_an_abort_storm_with_a_cut_link_passes(tmp_path: Path) -> None:
    severance = [sys.executable, "-P", "-m", "severance"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(HOME),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    with subprocess.Popen(
        [*severance, "up", "--json", "--out", str(tmp_path / "up")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as up:
        try:
            assert up.stdout is not None
            text = b"".join(iter(up.stdout.readline, b"}\n")) + b"}"
            endpoints = msgspec.json.decode(text, type=UpEndpoints)
            target, out = tmp_path / "up" / "target.yaml", tmp_path / "run"
            done = subprocess.run(
                [*severance, "run", str(STORM), "--target", str(target), "--out", str(out)],
                capture_output=True,
                text=True,
                timeout=120,
                env=environment,
                check=False,
            )
            verdict = msgspec.json.decode((out / "verdict.json").read_bytes(), type=Verdict)
            assert done.returncode == 0, done.stdout + done.stderr
            assert_still_there(endpoints, target, tmp_path)
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(30)
    assert_expected(verdict, out)


def assert_expected(verdict: Verdict, out: Path) -> None:
    info = msgspec.json.decode((out / "run.json").read_bytes(), type=RunInfo)
    assert info.cannot_show == ("control run",)
    assert verdict.status is RunStatus.PASSED
    assert verdict.coverage is not None
    assert verdict.coverage.unobservable == ("tokens_equal_control",)
    others = [one for one in verdict.checks if one.id != "tokens_equal_control"]
    assert {one.status for one in others} == {CheckStatus.PASS}
    assert all(one.examined > 0 for one in others)
    (fault,) = verdict.faults
    assert fault.proven
    assert fault.exposed > 0
    assert sum(verdict.requests.aborted.values()) >= 10


def assert_still_there(endpoints: UpEndpoints, file: Path, tmp_path: Path) -> None:
    """Every worker is the same process, every proxy is clean, and it serves."""
    for worker in endpoints.workers:
        assert proc.read_stat(worker.pid) is not None
        assert is_ok(endpoint_of(worker.url), "/health_generate", 10.0)
    there = TargetDeployment(load_target(file), tmp_path, tmp_path / "copy.sqlite")
    assert unhealed(there.toxiproxy, there.links) == []
