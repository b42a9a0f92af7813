"""`severance heal` after the runner was killed."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos import proc
from chaos.cli import add_commands
from chaos.codes import ExitCode
from chaos.errors import UsageError
from chaos.proc import Identity
from chaos.records import FaultEvent, FaultRecord, ProcessRecord, RunInfo, read_jsonl
from chaos.recover import crashed_runs, recover
from chaos.registry import active_runs

HOME = Path(__file__).resolve().parents[2]
# A runner in the middle of a fault: real toxiproxy, a stalled link, a worker with a child of its own.
RUNNER = """
import socket, sys, time
from pathlib import Path
from chaos.codes import LinkKind
from chaos.fault_step import FaultStep
from chaos.faults.stall import stall
from chaos.links import Link, LinkName, Endpoint
from chaos.local import LocalOptions
from chaos.ports import PortPool
from chaos.progress import Progress
from chaos.run_context import RunContext, prepare_out
from chaos.scenario import load_scenario
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.tools import require_toxiproxy

scenario, out = Path(sys.argv[1]), Path(sys.argv[2])
prepare_out(out)
run = RunContext(load_scenario(scenario), out, LocalOptions(), require_toxiproxy(), Progress())
run.open()
pool = PortPool("127.0.0.1")
control, listen, upstream = pool.take(), pool.take(), pool.take()
pool.close()
link = Link(name=LinkName(kind=LinkKind.KV, prefill="p0", decode="d0"), listen=listen, upstream=upstream)
server = ToxiproxyServer(require_toxiproxy(), control, run.launcher, [link])
server.start()
# The worker asks not to be killed with us, and its child never was: both are left over.
run.launcher.start("d0", [sys.executable, "-c", '''
import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("up", flush=True)
time.sleep(60)
'''])
log = out / "logs" / "d0.log"
while not log.exists() or "up" not in log.read_text():
    time.sleep(0.01)
fault = stall(server, [link], 60)
step = FaultStep("f0", fault, run.journal, run.active, {})
step.declare()
step._inject()
print("injected", flush=True)
time.sleep(60)
"""


@pytest.fixture
def crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a run whose runner was killed with SIGKILL while a fault was on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    scenario = tmp_path / "s.yaml"
    scenario.write_text("name: crash\n")
    out = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(scenario), str(out)], stdout=subprocess.PIPE, cwd=HOME
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"injected\n"
        with pytest.raises(UsageError, match=r"still being run by pid"):
            recover(out)
        runner.kill()
    yield out
    recover(out)


def identities(directory: Path) -> dict[str, Identity]:
    records = read_jsonl(directory / "processes.jsonl", ProcessRecord)
    return {r.name: Identity(pid=r.pid, started_ticks=r.started_ticks) for r in records}


def test_it_ends_what_is_left_and_marks_the_fault_healed(crashed: Path) -> None:
    who = identities(crashed)
    assert proc.wait_gone([who["toxiproxy"]], 5) == [], "toxiproxy dies with its runner"
    assert proc.alive(who["d0"])
    assert [run.directory for run in crashed_runs()] == [str(crashed)]
    recovery = recover(crashed)
    assert recovery.left == ()
    assert sum("ended d0" in line for line in recovery.done) == 2, "the worker and its child"
    assert "marked fault f0 (stall) healed" in recovery.done
    assert not proc.alive(who["d0"])
    last = read_jsonl(crashed / "faults.jsonl", FaultRecord)[-1]
    assert (last.event, last.rung) == (FaultEvent.HEALED, "run_ended")
    assert active_runs() == []
    info = msgspec.json.decode((crashed / "run.json").read_bytes(), type=RunInfo)
    assert not info.finished


def test_it_is_idempotent(crashed: Path) -> None:
    recover(crashed)
    num_lines = len((crashed / "faults.jsonl").read_bytes().splitlines())
    again = recover(crashed)
    assert (again.done, again.left) == ((), ())
    assert len((crashed / "faults.jsonl").read_bytes().splitlines()) == num_lines


def test_a_stranger_with_a_recorded_pid_is_spared(crashed: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        record = ProcessRecord(
            name="p0", pid=stranger.pid, started_ticks=1, argv=("worker",), ports=()
        )
        with (crashed / "processes.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")
        assert recover(crashed).left == ()
        assert stranger.poll() is None
        stranger.kill()


def command(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(dest="command"))
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


def test_the_command_finds_crashed_runs_by_itself(
    crashed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("heal") == ExitCode.PASSED
    assert "ended d0" in capsys.readouterr().out
    assert command("heal") == ExitCode.PASSED
    assert "nothing to heal" in capsys.readouterr().out
    assert command("heal", str(crashed)) == ExitCode.PASSED


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("heal", str(tmp_path)) == ExitCode.USAGE
    assert "no run.json" in capsys.readouterr().err
    assert command("check", str(tmp_path)) == ExitCode.USAGE
