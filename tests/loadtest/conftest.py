"""Real servers and real load processes (gevent must not patch pytest's own process)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from loadtest.history import End, Sent, read_history

ROOT = Path(__file__).resolve().parents[2]
STUB = Path(__file__).with_name("stub_server.py")


class StubProcess:
    """`stub_server.py` as a process of its own."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(STUB), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def events(self, kind: str) -> list[dict[str, object]]:
        with urllib.request.urlopen(f"{self.url}/events", timeout=5) as answer:
            return [event for event in json.load(answer) if event["event"] == kind]

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(5)
        self._process.stdout.close()


class LoadResult(msgspec.Struct, frozen=True):
    """What a finished ``severance load`` left."""

    code: int
    stderr: str
    out: Path

    def records(self, name: str = "history.jsonl") -> tuple[dict[str, Sent], dict[str, End]]:
        records = read_history(self.out / name)
        sent = {record.rid: record for record in records if isinstance(record, Sent)}
        ends = {record.rid: record for record in records if isinstance(record, End)}
        assert len(records) == len(sent) + len(ends), "one sent and at most one end a request"
        return sent, ends

    def in_order(self, name: str = "history.jsonl") -> list[tuple[Sent, End | None]]:
        sent, ends = self.records(name)
        by_index = sorted(sent.values(), key=lambda record: record.index)
        return [(record, ends.get(record.rid)) for record in by_index]

    def summary(self) -> dict[str, float]:
        document: dict[str, float] = json.loads((self.out / "load.json").read_bytes())
        return document


def load_argv(*options: str) -> list[str]:
    return [sys.executable, "-m", "loadtest", "load", *options]


@pytest.fixture
def stub() -> Iterator[Callable[..., StubProcess]]:
    processes: list[StubProcess] = []

    def start(*options: str) -> StubProcess:
        processes.append(StubProcess(*options))
        return processes[-1]

    yield start
    for process in processes:
        process.stop()


@pytest.fixture
def start_load(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a load that writes to ``tmp_path / "out"``."""
    processes: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        argv = load_argv("--out", str(tmp_path / "out"), *options)
        processes.append(
            subprocess.Popen(
                argv, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def load(
    start_load: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> Callable[..., LoadResult]:
    """Run a load to its end."""

    def run(*options: str) -> LoadResult:
        process = start_load(*options)
        _, stderr = process.communicate(timeout=50)
        return LoadResult(process.returncode, stderr, tmp_path / "out")

    return run
