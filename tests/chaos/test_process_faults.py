"""Pause, slow, restart and the span store away: on real processes, each proven and healed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos import proc
from chaos.codes import HealRung, TelemetryMode
from chaos.errors import ProcessFailed
from chaos.faults.base import Fault
from chaos.faults.collector import CollectorFault
from chaos.faults.pause import PauseFault
from chaos.faults.restart import RestartFault
from chaos.faults.slow import SlowFault
from chaos.freeze import freeze, is_stopped
from chaos.http import is_ok
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.local import LocalDeployment
from chaos.proc import Identity
from chaos.process import Launcher
from chaos.records import FaultRecord
from chaos.spec import DeploymentSpec
from chaos.undo import apply
from chaos.worker import ENVIRONMENT

STANDIN = Path(__file__).with_name("standin")
HOME = Path(__file__).resolve().parents[2]


@pytest.fixture
def deployment(
    toxiproxy_binary: Path,
    launcher: Launcher,
    brake: Brake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LocalDeployment]:
    """p0, d0 and the span store as stand-ins; no router, no proxies."""
    monkeypatch.setitem(ENVIRONMENT, "PYTHONPATH", f"{STANDIN}:{HOME}")
    made = LocalDeployment(DeploymentSpec(), launcher, toxiproxy_binary, tmp_path / "s.db", brake)
    made.start_collector()
    for worker in ("p0", "d0"):
        made.restart_worker(worker)
    yield made
    assert made.stop() == []


def run(fault: Fault, hold_s: float = 0.0) -> None:
    """Inject, prove, heal."""
    fault.inject()
    try:
        time.sleep(hold_s)
        proof = fault.verify()
    finally:
        report = fault.heal()
    assert proof.proven, proof.text
    assert report.healed, report.left
    assert report.effect_ms is not None


def test_a_paused_worker_is_silent_and_goes_on(deployment: LocalDeployment) -> None:
    before = deployment.worker_processes("d0")
    fault = PauseFault(deployment, "d0", 1.0)
    fault.inject()
    assert all(is_stopped(who) for who in before)
    assert not is_ok(deployment.worker_endpoint("d0"), "/health", 0.3)
    assert is_ok(deployment.worker_endpoint("p0"), "/health", 5)
    assert fault.verify().proven
    report = fault.heal()
    assert (report.rung, report.healed) == (HealRung.CONTINUE_PROCESS, True)
    assert is_ok(deployment.worker_endpoint("d0"), "/health", 5)
    assert deployment.worker_processes("d0") == before, "the same processes"


def test_a_pause_that_is_not_there_proves_nothing(deployment: LocalDeployment) -> None:
    fault = PauseFault(deployment, "d0", 1.0)
    fault.inject()
    deployment.resume_worker("d0")
    assert not fault.verify().proven
    assert fault.heal().healed


def test_undo_from_outside_continues_a_paused_worker(
    deployment: LocalDeployment, journal: Journal
) -> None:
    """What is written down before the injection is enough for somebody else to mend it."""
    fault = PauseFault(deployment, "d0", 1.0)
    undo = fault.undo()
    assert undo
    fault.inject()
    done = [apply(act) for act in undo]
    assert all(line.startswith("continued pid") for line in done)
    assert is_ok(deployment.worker_endpoint("d0"), "/health", 5)
    assert [apply(act) for act in undo] == ["" for _ in undo], "nothing is left to do"
    assert FaultRecord.__struct_fields__.count("undo") == 1
    fault.heal()


def test_a_slow_worker_still_answers_and_is_fast_again(deployment: LocalDeployment) -> None:
    fault = SlowFault(deployment, "d0", 2.0, cpu_share=0.3)
    fault.inject()
    try:
        proof = fault.verify()
        assert is_ok(deployment.worker_endpoint("d0"), "/health", 5), "slow, not dead"
    finally:
        report = fault.heal()
    assert proof.proven, proof.text
    assert report.healed
    who = deployment.worker_processes("d0")
    assert not any(is_stopped(one) for one in who for _ in range(50))


def test_a_restart_is_asked_for_and_another_process_comes(deployment: LocalDeployment) -> None:
    before = deployment.worker_processes("d0")
    run(RestartFault(deployment, "d0", 0.0))
    after = deployment.worker_processes("d0")
    assert after
    assert not set(after) & set(before)
    log = (deployment._launcher._journal.directory / "processes.jsonl").read_text()
    assert '"ended":true' in log


@pytest.mark.parametrize("mode", TelemetryMode)
def test_the_span_store_goes_away_and_comes_back(
    deployment: LocalDeployment, mode: TelemetryMode
) -> None:
    run(CollectorFault(deployment, mode, 0.5))
    assert deployment.collector_answers() or is_ok(deployment.layout.spanstore, "/health", 5)
    assert is_ok(deployment.worker_endpoint("d0"), "/health", 5)


def test_stopping_what_is_gone_is_an_error() -> None:
    with pytest.raises(ProcessFailed, match="no process"):
        freeze([])
    gone = Identity(pid=2**22 - 1, started_ticks=1)
    assert not proc.alive(gone)
    with pytest.raises(ProcessFailed, match="did not stop"):
        freeze([gone])


def test_a_pulled_brake_continues_a_paused_worker_at_once(
    deployment: LocalDeployment, journal: Journal, brake: Brake
) -> None:
    from chaos.errors import Halted
    from chaos.fault_step import ActiveFaults, FaultStep

    fault = PauseFault(deployment, "d0", 30.0)
    step = FaultStep("f0", fault, journal, ActiveFaults(), {})
    step.declare()
    threading.Timer(0.5, brake.halt, ["guard"]).start()
    with pytest.raises(Halted):
        step.run(brake)
    assert is_ok(deployment.worker_endpoint("d0"), "/health", 5)
