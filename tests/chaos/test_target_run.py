"""Runs against `severance up` around stand-in workers, as somebody else's deployment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos import proc
from chaos.errors import NotHealed, ToxiproxyError, UsageError
from chaos.heal import heal_links, unhealed
from chaos.journal import Journal
from chaos.links import Endpoint
from chaos.pd import PdDeployment
from chaos.records import EventKind, FaultEvent, FaultRecord, RunEvent, RunInfo, read_jsonl
from chaos.target import Target, dump_target, load_target
from chaos.target_deployment import TargetDeployment
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.model import Toxic
from tests.chaos.test_up import HOME, MAIN, STANDIN, Up, running

pytestmark = pytest.mark.timeout(120)
SCENARIO = """
name: standin
load: {duration_s: 6, warmup_s: 0.2}
steady_state: {within_s: 0.2}
method:
  - at_s: 0.5
    fault: {kind: link, mode: stall, links: ["kv:*"], for_s: 2}
"""


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running(tmp_path) as up:
        up.wait_serving()
        up.wait_for(lambda: (up.out / "target.yaml").exists(), "target.yaml")
        yield up
        assert up.end(signal.SIGTERM) == 0


def start(up: Up, target: Path | None = None) -> subprocess.Popen[str]:
    folder = up.out.parent
    (folder / "scenario.yaml").write_text(SCENARIO)
    search = f"{STANDIN}{os.pathsep}{HOME}"
    flags = ["--target", str(target or up.out / "target.yaml"), "--out", str(folder / "run")]
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, search, "run", str(folder / "scenario.yaml"), *flags],
        cwd=HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def attach(up: Up, tmp_path: Path) -> TargetDeployment:
    target = load_target(up.out / "target.yaml")
    return TargetDeployment(target, tmp_path / "logs", tmp_path / "spans.sqlite")


def pids(up: Up) -> list[int]:
    from chaos.endpoints import read

    toxiproxy = attach(up, up.out.parent).toxiproxy.pid
    assert toxiproxy is not None
    return [toxiproxy, *(worker.pid for worker in read(up.out / "endpoints.json").workers)]


def fault_events(up: Up) -> list[FaultEvent]:
    path = up.out.parent / "run" / "faults.jsonl"
    return [record.event for record in read_jsonl(path, FaultRecord)] if path.exists() else []


def test_a_run_ends_nothing_of_somebody_elses(up: Up, tmp_path: Path) -> None:
    before = pids(up)
    with start(up) as process:
        out, _ = process.communicate(timeout=100)
    assert pids(up) == before, out
    assert all(proc.read_stat(pid) for pid in before)
    there = attach(up, tmp_path)
    assert unhealed(there.toxiproxy, there.links) == []
    assert FaultEvent.VERIFIED in fault_events(up)
    assert fault_events(up)[-1] is FaultEvent.HEALED
    info = msgspec.json.decode((tmp_path / "run" / "run.json").read_bytes(), type=RunInfo)
    assert info.cannot_show == ("control run",)
    assert info.residue == ()
    events = read_jsonl(tmp_path / "run" / "events.jsonl", RunEvent)
    phases = [one.name for one in events if one.kind is EventKind.PHASE]
    assert "control" not in phases
    assert phases[-1] == "done"


def test_a_killed_runner_is_healed_by_its_watchdog_and_nothing_is_ended(
    up: Up, tmp_path: Path
) -> None:
    before = pids(up)
    there = attach(up, tmp_path)
    with start(up) as process:
        up.wait_for(lambda: FaultEvent.INJECTED in fault_events(up), "the fault")
        assert unhealed(there.toxiproxy, there.links) != []
        process.kill()
        process.communicate(timeout=10)
    up.wait_for(lambda: unhealed(there.toxiproxy, there.links) == [], "the watchdog's heal")
    assert pids(up) == before
    assert all(proc.read_stat(pid) for pid in before)


def test_one_run_at_a_time_and_never_onto_somebodys_toxics(up: Up, tmp_path: Path) -> None:
    first = attach(up, tmp_path)
    first.attach()
    with start(up) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "another run is at work" in out
    link = first.links[0]
    toxic = Toxic(name="mine", type="latency", stream="upstream", attributes={"latency": 5})
    first.toxiproxy.client.add_toxic(link.proxy, toxic)
    assert first.stop() == [f"proxy {link.proxy} of {link}"]
    with pytest.raises(UsageError, match="has toxics already"):
        first.attach()
    first.toxiproxy.client.remove_toxic(link.proxy, "mine")


def test_the_heal_ladder_never_kills_their_toxiproxy(up: Up, tmp_path: Path) -> None:
    there = attach(up, tmp_path)
    control = there.toxiproxy.control
    pid = there.toxiproxy.pid
    # A server that cannot be reached climbs every rung.
    there.toxiproxy.emergency = EmergencyClient(Endpoint("127.0.0.1", 9), 0.2)
    report = heal_links(there.toxiproxy, there.links)
    assert not report.healed
    assert "somebody else's" in report.detail
    assert attach(up, tmp_path).toxiproxy.pid == pid
    with pytest.raises(ToxiproxyError):
        there.toxiproxy.end()
    assert there.toxiproxy.control == control


def with_commands(up: Up, tmp_path: Path) -> Target:
    """d0 by the commands of its owner: the same arguments, detached."""
    from chaos.endpoints import read

    (d0,) = [one for one in read(up.out / "endpoints.json").workers if one.name == "d0"]
    raw = Path(f"/proc/{d0.pid}/cmdline").read_bytes().split(b"\0")[:-1]
    argv = [part.decode() for part in raw]
    code = (
        "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True,"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"
    )
    target = load_target(up.out / "target.yaml")
    workers = tuple(
        msgspec.structs.replace(
            worker,
            kill=("kill", "-9", str(d0.pid)),
            restart=(sys.executable, "-c", code, *argv),
        )
        if worker.name == "d0"
        else worker
        for worker in target.workers
    )
    return msgspec.structs.replace(target, workers=workers)


def test_a_worker_is_killed_and_restarted_by_its_owners_commands(
    up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{STANDIN}{os.pathsep}{HOME}")
    target = with_commands(up, tmp_path)
    dump_target(target, tmp_path / "commands.yaml")
    there = TargetDeployment(
        load_target(tmp_path / "commands.yaml"), tmp_path / "logs", tmp_path / "s.sqlite"
    )
    pd = PdDeployment(there, Journal(tmp_path, "test"))
    old = there.worker_pid("d0")
    with pd.kill("d0"):
        assert not there.worker_runs("d0")
    new = there.worker_pid("d0")
    assert new not in (0, old)
    os.kill(new, signal.SIGKILL)  # it is nobody's child but the test's


def test_a_command_that_fails_is_a_fault_that_was_not_made(up: Up, tmp_path: Path) -> None:
    target = load_target(up.out / "target.yaml")
    workers = tuple(
        msgspec.structs.replace(worker, kill=("false",), restart=("true",))
        for worker in target.workers
    )
    there = TargetDeployment(
        msgspec.structs.replace(target, workers=workers), tmp_path / "logs", tmp_path / "s.sqlite"
    )
    pd = PdDeployment(there, Journal(tmp_path, "test"))
    from chaos.errors import FaultUnproven

    with pytest.raises((FaultUnproven, NotHealed), match="false failed"):
        with pd.kill("d0"):
            pass
    assert there.worker_runs("d0")


TEST = """
def test_theirs(pd_deployment, stall):
    assert pd_deployment.generate("hello").completed
    stall("kv:*").__enter__()
"""


def test_pytest_uses_a_deployment_of_somebody_elses_and_leaves_it(up: Up, tmp_path: Path) -> None:
    before = pids(up)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "test_inner.py").write_text(TEST)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "chaos.pytest_plugin"),
            *("-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path / 'inner'}"),
            *("--pd-target", str(up.out / "target.yaml"), "inner"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert pids(up) == before
    there = attach(up, tmp_path)
    assert unhealed(there.toxiproxy, there.links) == []
