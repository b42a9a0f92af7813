"""`severance up` around stand-in workers: real router, real toxiproxy, real processes, real signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from chaos import proc
from chaos.endpoints import FILE, UpEndpoints, read
from chaos.errors import UsageError
from chaos.links import Endpoint
from chaos.proc import Identity
from chaos.records import ProcessRecord, RunInfo, read_jsonl
from chaos.recover import crashed_runs, recover
from chaos.registry import active_runs
from chaos.residue import find_residue
from chaos.toxiproxy.emergency import EmergencyClient

pytestmark = pytest.mark.timeout(170)
HOME = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).with_name("standin")
MAIN = """
import sys
from chaos.worker import ENVIRONMENT
ENVIRONMENT["PYTHONPATH"] = sys.argv[1]
import argparse
from chaos.cli import add_commands
parser = argparse.ArgumentParser(prog="severance")
add_commands(parser.add_subparsers(dest="command", required=True))
args = parser.parse_args(sys.argv[2:])
sys.exit(args.run(args))
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Up:
    """A running `severance up` and what it prints."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self.process = process
        self.out = out
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_serving(self) -> UpEndpoints:
        self.wait_for(lambda: (self.out / FILE).exists(), "endpoints.json")
        return read(self.out / FILE)

    def wait_for(self, happened: object, what: str, within_s: float = 80) -> None:
        assert callable(happened)
        deadline = time.monotonic() + within_s
        while not happened():
            assert self.process.poll() is None, f"it ended before {what}:\n{self.text}"
            assert time.monotonic() < deadline, f"no {what} in {within_s} s:\n{self.text}"
            time.sleep(0.02)  # another process writes it; there is no event to await

    def end(self, number: signal.Signals | None = None, within_s: float = 80) -> int:
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(within_s)
        self._reader.join(5)
        return code

    def is_clean(self) -> bool:
        info = msgspec.json.decode((self.out / "run.json").read_bytes(), type=RunInfo)
        return find_residue(self.out, info.run_id) == [] and active_runs() == []


@contextmanager
def running(tmp_path: Path, *flags: str, **variables: str) -> Iterator[Up]:
    out = tmp_path / "up"
    search = f"{STANDIN}{os.pathsep}{HOME}"
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, search, "up", "--out", str(out), *flags],
        cwd=HOME,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Up(process, out)
        finally:
            process.kill()


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


def children(out: Path) -> list[ProcessRecord]:
    records = read_jsonl(out / "processes.jsonl", ProcessRecord)
    return [record for record in records if record.name != "runner"]


def lives(record: ProcessRecord) -> bool:
    return proc.alive(Identity(pid=record.pid, started_ticks=record.started_ticks))


def test_two_by_two_serves_says_where_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with running(tmp_path, "--prefill", "2", "--decode", "2") as up:
        found = up.wait_serving()
        assert [worker.name for worker in found.workers] == ["p0", "p1", "d0", "d1"]
        assert len({link.name for link in found.links}) == 12, "three links for each of four pairs"
        assert len({link.listen for link in found.links}) == 12, "of its own"
        assert all(status(f"{worker.url}/health") == 200 for worker in found.workers)
        assert status(f"{found.router}/health") == 200
        assert found.pid == up.process.pid
        host, _, port = found.toxiproxy.removeprefix("http://").partition(":")
        held = EmergencyClient(Endpoint(host, int(port))).proxies()
        assert set(held) == {link.name for link in found.links}
        up.wait_for(lambda: "end it: Ctrl-C" in up.text, "the summary")
        assert up.end(signal.SIGINT) == 0
        for url in (found.router, found.toxiproxy, *(worker.url for worker in found.workers)):
            assert url in up.text
        assert "/abort_request" in up.text
        assert '{"enabled": false}' in up.text
        assert up.is_clean()


def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        records = up.out / "processes.jsonl"
        up.wait_for(lambda: records.exists() and b'"p0"' in records.read_bytes(), "p0 started")
        assert up.end(signal.SIGINT) == 130
        assert "before it served" in up.text
        assert not (up.out / FILE).exists()
        assert up.is_clean()


def test_a_dead_worker_is_reported_and_more_signals_leave_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "--decode", "2") as up:
        found = up.wait_serving()
        d1 = next(worker for worker in found.workers if worker.name == "d1")
        os.kill(d1.pid, signal.SIGKILL)
        up.wait_for(lambda: "d1 ended (signal 9)" in up.text, "the report")
        others = [worker for worker in found.workers if worker.name != "d1"]
        assert all(status(f"{worker.url}/health") == 200 for worker in others)
        up.process.send_signal(signal.SIGTERM)
        up.process.send_signal(signal.SIGINT)
        up.process.send_signal(signal.SIGINT)
        assert up.end() == 0
        assert up.text.count("d1 ended") == 1
        assert not [record.name for record in children(up.out) if lives(record)]
        assert up.is_clean()


def test_heal_finds_what_a_killed_up_left(tmp_path: Path) -> None:
    """SIGKILL: whoever is not taken along by the kernel is found by pid and start time."""
    with running(tmp_path) as up:
        up.wait_serving()
        with pytest.raises(UsageError, match="still being run by pid"):
            recover(up.out)
        up.end(signal.SIGKILL)
        (run,) = crashed_runs()
        assert Path(run.directory) == up.out.resolve()
        recovery = recover(up.out)
        assert recovery.left == ()
        assert not [record.name for record in children(up.out) if lives(record)]
        assert up.is_clean()


def test_a_worker_that_cannot_start_ends_it_with_its_log(tmp_path: Path) -> None:
    with running(tmp_path, STANDIN_DIES="p0") as up:
        assert up.end() == 4
        assert "no such model directory" in up.text
        assert up.is_clean()


def test_a_router_port_that_is_taken_is_usage(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running(tmp_path, "--port", port) as up:
            assert up.end() == 2
            assert f"--port {port}: cannot listen" in up.text
            assert "choose another" in up.text


def test_file_options_over_it_json_and_an_end_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("name: mine\ndeployment: {prefill: 2, decode: 2, worker: {page_size: 8}}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    out = tmp_path / "up"
    search = f"{STANDIN}{os.pathsep}{HOME}"
    argv = [sys.executable, "-c", MAIN, search, "up", "-f", str(path), "--decode", "1"]
    argv += ["--port", port, "--out", str(out), "--json", "--for", "0.3"]
    done = subprocess.run(argv, cwd=HOME, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = msgspec.json.decode(done.stdout, type=UpEndpoints)
    assert found == read(out / FILE), "stdout is the file, and nothing else"
    assert found.router == f"http://127.0.0.1:{port}"
    assert [worker.name for worker in found.workers] == ["p0", "p1", "d0"], "--decode 1 wins"
    (record,) = [one for one in children(out) if one.name == "d0" and not one.ended]
    assert record.argv[record.argv.index("--page-size") + 1] == "8", "of the file"
    assert b"0.3 s are over: ending" in done.stderr
    assert active_runs() == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--prefill", "0"], "is no count"),
        (["--for", "-1"], "is no time"),
        (["--port", "70000"], "is no port"),
        (["--max-total-tokens", "100"], "is no multiple of 16"),
        (["--model-path", ""], "--model-path is empty"),
        (["--otlp-traces-endpoint", "localhost:4318"], "is no URL"),
        (["-f", "nowhere.yaml"], "cannot read nowhere.yaml"),
    ],
)
def test_usage(tmp_path: Path, flags: list[str], says: str) -> None:
    with running(tmp_path, *flags) as up:
        assert up.end() == 2
        assert says in up.text
        assert not up.out.exists()
