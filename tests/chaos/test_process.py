"""Programs are recorded before use, ended exactly, and die with their runner."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos import proc
from chaos.errors import ProcessFailed
from chaos.proc import Identity
from chaos.process import Launcher
from chaos.records import ProcessRecord, read_jsonl

HOME = Path(__file__).resolve().parents[2]
SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
WITH_CHILD = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; c = subprocess.Popen([sys.executable, '-c', 'import time;"
    " time.sleep(60)']); print(c.pid, flush=True); time.sleep(60)",
]


def first_line(path: Path) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if lines:
            return lines[0]
        time.sleep(0.01)
    raise AssertionError(f"nothing in {path}")


def test_a_started_program_is_on_record(launcher: Launcher, tmp_path: Path) -> None:
    process = launcher.start("sleeper", SLEEPER, ports=[4242])
    [record] = read_jsonl(tmp_path / "processes.jsonl", ProcessRecord)
    assert (record.name, record.pid, record.ports) == ("sleeper", process.pid, (4242,))
    stat = proc.read_stat(process.pid)
    assert stat is not None
    assert stat.started_ticks == record.started_ticks
    launcher.stop(process)
    assert read_jsonl(tmp_path / "processes.jsonl", ProcessRecord)[-1].ended


def test_only_that_process_is_killed(launcher: Launcher) -> None:
    victim, bystander = launcher.start("a", SLEEPER), launcher.start("b", SLEEPER)
    assert victim.kill() == []
    assert victim.returncode() == -signal.SIGKILL
    assert bystander.returncode() is None


def test_a_recycled_pid_is_left_alone(launcher: Launcher) -> None:
    process = launcher.start("sleeper", SLEEPER)
    stranger = Identity(pid=process.pid, started_ticks=process.identity.started_ticks + 1)
    assert not proc.alive(stranger)
    assert not proc.send(stranger, signal.SIGKILL)
    assert process.returncode() is None


def test_children_of_a_killed_program_go_too(launcher: Launcher, tmp_path: Path) -> None:
    process = launcher.start("parent", WITH_CHILD)
    child = int(first_line(process.log))
    stat = proc.read_stat(child)
    assert stat is not None
    identity = Identity(pid=child, started_ticks=stat.started_ticks)
    assert process.kill() == []
    assert not proc.alive(identity)


def test_an_early_end_shows_the_log(launcher: Launcher) -> None:
    process = launcher.start(
        "broken", [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    )
    assert process.wait(10)
    with pytest.raises(ProcessFailed, match=r"broken ended early.*\n.*no such model"):
        process.require_alive()


def test_a_program_that_is_not_there(launcher: Launcher) -> None:
    process = launcher.start("absent", ["/no/such/program"])
    assert process.wait(10)
    assert "cannot start /no/such/program" in process.tail()


GRANDCHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_child_in_a_session_of_its_own_is_a_member_and_ends_too(launcher: Launcher) -> None:
    """As a worker's scheduler is: what does not count it stops, slows and sweeps half of a worker."""
    process = launcher.start("parent", [sys.executable, "-c", GRANDCHILD])
    deadline = time.monotonic() + 10
    while not process.tail().strip().isdigit() and time.monotonic() < deadline:
        time.sleep(0.01)
    child = int(process.tail())
    members = process.members()
    assert {one.pid for one in members} == {process.pid, child}
    orphan = [one for one in members if one.pid == child]
    process.signal(signal.SIGKILL)
    assert process.wait(5)
    assert process.members() == orphan, "it has another parent now"
    assert launcher.stop(process) == []
    assert proc.wait_gone(orphan, 5) == []


RUNNER = """
import sys, threading, time
from pathlib import Path
from chaos.journal import Journal
from chaos.process import Launcher
launcher = Launcher(Journal(Path(sys.argv[1]), "r"))
def work():
    launcher.start("child", [sys.executable, "-c", "import time; time.sleep(60)"])
thread = threading.Thread(target=work)  # ends at once; the child must outlive it
thread.start(); thread.join()
print(launcher.processes[0].pid, flush=True)
time.sleep(60)
"""


def test_children_die_with_a_killed_runner_but_not_with_its_thread(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)], stdout=subprocess.PIPE, cwd=HOME
    ) as runner:
        assert runner.stdout is not None
        child = int(runner.stdout.readline())
        stat = proc.read_stat(child)
        assert stat is not None
        identity = Identity(pid=child, started_ticks=stat.started_ticks)
        assert proc.wait_gone([identity], 0.3) == [identity]
        runner.kill()
        assert proc.wait_gone([identity], 5) == []
