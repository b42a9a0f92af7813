"""The whole runner around stand-in workers: real router, real toxiproxy, real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from chaos import proc
from chaos.proc import Identity
from chaos.records import (
    EventKind,
    FaultEvent,
    FaultRecord,
    LedgerSample,
    ProcessRecord,
    RunEvent,
    RunInfo,
    read_jsonl,
)
from chaos.recover import recover
from chaos.registry import active_runs
from chaos.residue import find_residue

HOME = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).with_name("standin")
MAIN = """
import sys
from pathlib import Path
from chaos.runner import run_scenario
from chaos.scenario import load_scenario
from chaos.worker import ENVIRONMENT
ENVIRONMENT["PYTHONPATH"] = sys.argv[1]
sys.exit(run_scenario(load_scenario(Path(sys.argv[2])), Path(sys.argv[3])))
"""
SCENARIO = """
name: standin
deployment: {worker: {max_total_tokens: 4096, nice: 0}}
load: {duration_s: 6, warmup_s: 0.2, capacity_share: 0.5, request_timeout_s: 5}
method:
  - at_s: 0.5
    fault: {kind: link, mode: stall, links: ["kv:*", "control:*"], for_s: 0.6}
  - at_s: 1.8
    fault: {kind: link, mode: blackhole, links: ["kv:*", "control:*"], for_s: 0.6}
  - at_s: 3.2
    fault: {kind: process, mode: kill, worker: d0, restart_after_s: 0.2}
guards:
  - {kind: stuck_request, older_than_s: 3}
  - {kind: no_data, for_s: 4}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@contextmanager
def running(
    tmp_path: Path, scenario: str = SCENARIO, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path / "scenario.yaml"
    path.write_text(scenario)
    search = f"{STANDIN}{os.pathsep}{HOME}"
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, search, str(path), str(tmp_path / "run")],
        cwd=HOME,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if (tmp_path / "run" / "run.json").exists():
                recover(tmp_path / "run")


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=50)
    return output


def wait_until(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def faults(run: Path) -> list[FaultRecord]:
    path = run / "faults.jsonl"
    return read_jsonl(path, FaultRecord) if path.exists() else []


def info(run: Path) -> RunInfo:
    return msgspec.json.decode((run / "run.json").read_bytes(), type=RunInfo)


def everyone(run: Path) -> list[Identity]:
    records = read_jsonl(run / "processes.jsonl", ProcessRecord)
    return [
        Identity(pid=record.pid, started_ticks=record.started_ticks)
        for record in records
        if record.name != "runner"
    ]


def assert_nothing_is_left(run: Path) -> None:
    assert find_residue(run, info(run).run_id) == []
    assert [who for who in everyone(run) if proc.alive(who)] == []
    assert active_runs() == []


def test_a_whole_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with running(tmp_path) as process:
        output = finish(process)
    assert info(run).finished, output
    assert info(run).residue == ()
    by_fault: dict[str, list[FaultEvent]] = {}
    for record in faults(run):
        by_fault.setdefault(record.fault_id, []).append(record.event)
    assert by_fault == {
        name: [
            FaultEvent.DECLARED,
            FaultEvent.INJECTING,
            FaultEvent.INJECTED,
            FaultEvent.VERIFIED,
            FaultEvent.HEALING,
            FaultEvent.HEALED,
        ]
        for name in ("f0-stall", "f1-blackhole", "f2-kill")
    }, "\n".join(f"{r.event} {r.proof} {r.error}" for r in faults(run))
    healed = [record for record in faults(run) if record.event is FaultEvent.HEALED]
    assert [record.rung for record in healed] == [
        "remove_toxics",
        "remove_toxics",
        "restart_worker",
    ]
    phases = [
        event.name
        for event in read_jsonl(run / "events.jsonl", RunEvent)
        if event.kind is EventKind.PHASE
    ]
    assert phases == [
        *(
            "setup",
            "baseline",
            "warmup",
            "load",
            "drain",
            "final",
            "probe",
            "control",
            "teardown",
            "done",
        )
    ]
    samples = read_jsonl(run / "ledger.jsonl", LedgerSample)
    assert {(sample.phase, sample.worker) for sample in samples} == {
        (phase, worker) for phase in ("baseline", "load", "final") for worker in ("p0", "d0")
    }
    incarnations = {s.ledger.incarnation for s in samples if s.ledger and s.worker == "d0"}
    assert len(incarnations) == 2, "d0 was killed and came back as another process"
    [probe] = [e for e in read_jsonl(run / "events.jsonl", RunEvent) if e.kind is EventKind.PROBE]
    assert (probe.name, probe.ok) == ("capacity:p0-d0", True)
    assert len((run / "control.jsonl").read_bytes().splitlines()) == 16, "12 wanted and 4 spare"
    assert_nothing_is_left(run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_the_middle_of_a_fault_heals_and_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    with running(
        tmp_path,
        SCENARIO.replace("for_s: 0.6", "for_s: 5", 1)
        .replace("duration_s: 6", "duration_s: 20")
        .replace("at_s: 1.8", "at_s: 8")
        .replace("at_s: 3.2", "at_s: 12"),
    ) as process:
        wait_until(lambda: any(r.event is FaultEvent.VERIFIED for r in faults(run)))
        process.send_signal(number)
        wait_until(lambda: info(run).interrupted)
        process.send_signal(number)
        output = finish(process)
        assert process.returncode == 130, output
    assert [record.event for record in faults(run)][-1] is FaultEvent.HEALED
    assert "already stopping" in output
    assert_nothing_is_left(run)


def test_a_guard_halts_and_heals(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with running(tmp_path, STANDIN_HANGS_AFTER="0.5") as process:
        output = finish(process)
    assert info(run).halted_by is not None, output
    assert "stuck_request" in (info(run).halted_by or "")
    assert all(
        [r.event for r in faults(run) if r.fault_id == name][-1]
        in (FaultEvent.HEALED, FaultEvent.DECLARED)
        for name in {record.fault_id for record in faults(run)}
    )
    assert_nothing_is_left(run)


def test_a_worker_that_does_not_start_ends_the_run_with_its_words(tmp_path: Path) -> None:
    with running(tmp_path, STANDIN_DIES="d0") as process:
        output = finish(process)
        assert process.returncode == 4
    assert "d0 ended early" in output
    assert "no such model directory" in output
    assert_nothing_is_left(tmp_path / "run")


def test_a_killed_runner_leaves_what_heal_cleans(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with running(tmp_path) as process:
        wait_until(lambda: any(r.event is FaultEvent.VERIFIED for r in faults(run)))
        process.kill()
        process.wait()
        assert proc.wait_gone(everyone(run), 5) == [], "every process dies with the runner"
        # The watchdog may have been here first; either way nothing is left and it is on record.
        assert recover(run).left == ()
    assert [record.event for record in faults(run)][-1] is FaultEvent.HEALED
    assert_nothing_is_left(run)


def test_a_link_that_nobody_uses_stays_unproven(tmp_path: Path) -> None:
    run = tmp_path / "run"
    scenario = """
name: no-effect
deployment: {bypass: ["kv:*"], worker: {max_total_tokens: 4096, nice: 0}}
load: {duration_s: 2, warmup_s: 0.2, capacity_share: 0.5, request_timeout_s: 5}
method:
  - at_s: 0.3
    fault: {kind: link, mode: stall, links: ["kv:*"], for_s: 0.5}
"""
    with running(tmp_path, scenario) as process:
        finish(process)
    events = [record.event for record in faults(run)]
    assert FaultEvent.UNPROVEN in events
    assert FaultEvent.VERIFIED not in events
    assert events[-1] is FaultEvent.HEALED
    assert_nothing_is_left(run)


def test_a_used_out_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").touch()
    with running(tmp_path) as process:
        output = finish(process)
    assert "OutNotEmpty" in output
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]
