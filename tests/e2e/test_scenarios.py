"""Shipped scenarios on the real parts, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chaos.verdict import CheckStatus, RunStatus, Verdict

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(110)]
HOME = Path(__file__).parents[2]


def run(scenario: str, out: Path, *options: str, within_s: float = 100) -> tuple[int, Verdict, str]:
    path = f"chaos/scenarios/{scenario}"
    done = subprocess.run(
        [sys.executable, "-m", "severance", "run", path, "--out", str(out), *options],
        cwd=HOME,
        env={**os.environ, "XDG_CACHE_HOME": str(out.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    text = done.stdout + done.stderr
    assert (out / "verdict.json").exists(), text
    verdict = msgspec.json.decode((out / "verdict.json").read_bytes(), type=Verdict)
    return done.returncode, verdict, text


def test_a_run_without_faults_passes(tmp_path: Path) -> None:
    code, verdict, text = run("quiet.yaml", tmp_path / "run")
    assert (code, verdict.status) == (0, RunStatus.PASSED), text
    assert all(check.status is CheckStatus.PASS and check.examined for check in verdict.checks)
    counts = verdict.requests
    assert counts.total == counts.completed + sum(counts.aborted.values()) > 0
    assert set(counts.aborted) == {"disconnect", "rid", "deadline"}
    assert verdict.residue == ()
    for name in ("report.html", "junit.xml", "aborts.jsonl", "spans.sqlite"):
        assert (tmp_path / "run" / name).stat().st_size > 0


def test_a_fault_on_a_link_that_nobody_uses_is_invalid(tmp_path: Path) -> None:
    code, verdict, text = run("selftest/no-effect.yaml", tmp_path / "run")
    assert (code, verdict.status) == (4, RunStatus.INVALID), text
    assert [fault.proven for fault in verdict.faults] == [False]
    unknown = {check.id for check in verdict.checks if check.status is not CheckStatus.PASS}
    assert unknown == {"faults_proven"}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_by_two_passes(tmp_path: Path) -> None:
    code, verdict, text = run("two-by-two.yaml", tmp_path / "run", within_s=230)
    assert (code, verdict.status) == (0, RunStatus.PASSED), text
    assert all(fault.proven and fault.exposed for fault in verdict.faults)
    assert len(verdict.ledger.workers) == 4


@pytest.mark.slow
@pytest.mark.timeout(190)
@pytest.mark.parametrize("name", ["short/partition", "short/death"])
def test_the_set_for_ci_passes(name: str, tmp_path: Path) -> None:
    code, verdict, text = run(f"{name}.yaml", tmp_path / "run", within_s=180)
    assert (code, verdict.status) == (0, RunStatus.PASSED), text
    assert all(fault.proven and fault.exposed for fault in verdict.faults)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_blip_aborts_nobody(tmp_path: Path) -> None:
    code, verdict, text = run("standard/blip.yaml", tmp_path / "run", within_s=230)
    assert (code, verdict.status) == (0, RunStatus.PASSED), text
    assert verdict.requests.completed == verdict.requests.total
    harmless = next(check for check in verdict.checks if check.id == "harmless_cuts")
    assert harmless.status is CheckStatus.PASS
    assert harmless.examined >= len(verdict.faults)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_blip_that_kills_is_caught(tmp_path: Path) -> None:
    """Workers that take half a second of silence for a death: each abort is the blip's own."""
    code, verdict, text = run(
        "standard/blip.yaml", tmp_path / "run", "--regression", "blip_is_death", within_s=230
    )
    assert (code, verdict.status) == (1, RunStatus.FAILED), text
    wrong = {check.id for check in verdict.checks if check.status is CheckStatus.FAIL}
    assert "harmless_cuts" in wrong, wrong


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_frozen_worker_is_found_dead_by_its_peer(tmp_path: Path) -> None:
    """Also its scheduler stands still; with that alive its peer would never notice."""
    code, verdict, text = run("frozen-peer.yaml", tmp_path / "run", within_s=230)
    assert (code, verdict.status) == (0, RunStatus.PASSED), text
    assert verdict.requests.aborted_server.get("peer_dead"), "nobody noticed"
