"""The plugin in pytests of their own, around stand-in workers: real toxiproxy, router and signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chaos import proc
from chaos.proc import Identity
from chaos.records import FaultEvent, FaultRecord, ProcessRecord, read_jsonl

pytestmark = pytest.mark.timeout(120)
HOME = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).with_name("standin")
CONFTEST = """
from chaos.worker import ENVIRONMENT
ENVIRONMENT["PYTHONPATH"] = {search!r}
"""
CLEAN = """
from chaos.heal import unhealed

def is_clean(pd):
    return unhealed(pd.deployment.toxiproxy, pd.deployment.links) == []
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    search = f"{STANDIN}{os.pathsep}{HOME}"
    (tmp_path / "conftest.py").write_text(CONFTEST.format(search=search))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "clean.py").write_text(CLEAN)
    return tmp_path


def start(folder: Path, body: str, *flags: str) -> subprocess.Popen[str]:
    (folder / "test_inner.py").write_text(body)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "chaos.pytest_plugin",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.Popen(
        [*command, f"--basetemp={folder / 'base'}", "-q", "-rA", *flags],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, body: str, *flags: str) -> str:
    with start(folder, body, *flags) as process:
        out, _ = process.communicate(timeout=100)
    assert_nothing_left(folder)
    return out


def assert_nothing_left(folder: Path) -> None:
    records = [
        r for p in folder.glob("base/pd[0-9]/processes.jsonl") for r in read_jsonl(p, ProcessRecord)
    ]
    assert records, "the inner tests started nothing"
    left = [
        record.name
        for record in records
        if proc.alive(Identity(pid=record.pid, started_ticks=record.started_ticks))
    ]
    assert left == []


def outcomes(out: str) -> dict[str, str]:
    """Test name -> PASSED, FAILED or ERROR (the last one said of it)."""
    found = re.findall(r"^(PASSED|FAILED|ERROR) test_inner.py::(\w+)", out, re.MULTILINE)
    return {name: outcome for outcome, name in found}


def test_every_fault_is_healed_whatever_the_test_does(folder: Path) -> None:
    out = run(
        folder,
        """
from clean import is_clean

def test_1_fails_under_a_cut(pd_deployment, blackhole):
    with blackhole("control:p0-d0"):
        assert not is_clean(pd_deployment)
        assert False, "on purpose"

def test_2_forgets_to_heal(pd_deployment, cut, pause):
    assert is_clean(pd_deployment)
    cut("stall", "kv:*").__enter__()
    pause("d0").__enter__()
    assert not is_clean(pd_deployment)

def test_3_kills_and_leaves(pd_deployment, kill):
    assert is_clean(pd_deployment)
    assert pd_deployment.generate("hello").completed
    kill("p0").__enter__()
    assert not pd_deployment.deployment.worker_runs("p0")

def test_4_serves_again(pd_deployment, link):
    assert is_clean(pd_deployment)
    assert pd_deployment.generate("hello").completed
    assert link("kv:*").names == ("kv:p0-d0",)
    assert link("kv:p0-d0").num_connections == 1
""",
    )
    assert outcomes(out) == {
        "test_1_fails_under_a_cut": "FAILED",
        "test_2_forgets_to_heal": "PASSED",
        "test_3_kills_and_leaves": "PASSED",
        "test_4_serves_again": "PASSED",
    }, out
    assert "on purpose" in out
    deployments = list(folder.glob("base/pd[0-9]/faults.jsonl"))
    assert len(deployments) == 1, "a healed deployment is used again"
    last = {record.fault_id: record.event for record in read_jsonl(deployments[0], FaultRecord)}
    assert len(last) == 4
    assert set(last.values()) == {FaultEvent.HEALED}


def test_a_fault_that_proves_nothing_fails_the_test(folder: Path) -> None:
    (folder / "bypassed.yaml").write_text('name: bypassed\ndeployment: {bypass: ["kv:*"]}\n')
    out = run(
        folder,
        """
import time, pytest
pytestmark = pytest.mark.pd(file="bypassed.yaml")

def test_1_traffic_goes_round_the_proxy(stall):
    with stall("kv:p0-d0"):
        pass

def test_2_the_fault_ended_before_the_block(blackhole):
    with blackhole("control:p0-d0", at_most_s=0.2):
        time.sleep(1)

def test_3_no_such_link(link):
    link("kv:p7-d0")

def test_4_no_such_setting(cut):
    cut("stall", "kv:*", latency_ms=5)

def test_5_no_such_worker(kill):
    kill("d7")
""",
    )
    assert set(outcomes(out).values()) == {"FAILED"}, out
    assert len(outcomes(out)) == 5
    for words in (
        "proves nothing",
        "ended by itself after 0.2 s",
        "matches no link, use one of bootstrap:p0-d0",
        "mode stall has no latency_ms",
        "no worker d7, use one of p0, d0",
    ):
        assert words in out, f"{words!r} is not in:\n{out}"


def test_options_come_from_ini_command_line_and_marker(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\npd_decode = 2\n")
    out = run(
        folder,
        """
import pytest
seen = []

def test_ini(pd_deployment):
    assert pd_deployment.workers == ("p0", "d0", "d1")
    seen.append(pd_deployment.url)

@pytest.mark.pd(prefill=2, decode=1)
def test_marker(pd_deployment):
    assert pd_deployment.workers == ("p0", "p1", "d0")
    assert pd_deployment.url not in seen

@pytest.mark.pd(prefil=2)
def test_misspelt(pd_deployment): ...

@pytest.mark.pd(prefill="two")
def test_no_count(pd_deployment): ...
""",
    )
    assert outcomes(out) == {
        "test_ini": "PASSED",
        "test_marker": "PASSED",
        "test_misspelt": "ERROR",
        "test_no_count": "ERROR",
    }, out
    assert "give a whole number" in out


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_inside_a_fault_leaves_nothing(folder: Path, times: int) -> None:
    body = """
import time
from pathlib import Path

def test_waits(pd_deployment, stall):
    with stall("kv:p0-d0"):
        Path("on").touch()
        time.sleep(60)
"""
    with start(folder, body) as process:
        reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
        lines: list[str] = []
        reader.start()
        while not (folder / "on").exists():
            assert process.poll() is None, "".join(lines)
            time.sleep(0.02)  # another process writes it; there is no event to await
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        code = process.wait(60)
        reader.join(10)
    assert code == pytest.ExitCode.INTERRUPTED, "".join(lines)
    assert_nothing_left(folder)
    (journal,) = folder.glob("base/pd[0-9]/faults.jsonl")
    events = [record.event for record in read_jsonl(journal, FaultRecord)]
    assert events[-1] is FaultEvent.HEALED


def test_nothing_starts_for_tests_that_ask_for_nothing(folder: Path) -> None:
    body = "import sys\ndef test_plain():\n    assert 'torch' not in sys.modules\n"
    with start(folder, body) as process:
        out, _ = process.communicate(timeout=60)
    assert outcomes(out) == {"test_plain": "PASSED"}, out
    assert list(folder.glob("base/**/processes.jsonl")) == []
