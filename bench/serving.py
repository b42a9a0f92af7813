"""Real workers for a benchmark: started on free ports, waited for, ended."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.run import ROOT
from chaos.ports import PortPool

HOST = "127.0.0.1"
READY_WITHIN_S = 60.0
# One thread a worker: two that spin against each other on two cores lose by a factor.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Worker:
    """``command``: what stands before the flags, ``severance serve`` or a stand-in with its flags."""

    def __init__(self, port: int, flags: list[str], log: Path, command: list[str]) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, *command, "--port", str(port), *flags],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | ENVIRONMENT,
            )

    def wait_ready(self) -> None:
        """Until /health answers 200. Raises RuntimeError with the end of its log."""
        deadline = time.monotonic() + READY_WITHIN_S
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a worker is not up:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.1)

    def _is_healthy(self) -> bool:
        try:
            return get(self.port, "/health")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Answer(msgspec.Struct, frozen=True):
    """The part of a /generate answer that is counted."""

    output_ids: list[int]


SERVE = ["-m", "severance", "serve"]


@contextmanager
def workers(
    directory: Path, *all_flags: list[str], command: list[str] | None = None
) -> Iterator[list[Worker]]:
    """One worker for each list of flags, all ready."""
    pool = PortPool(HOST)
    ports = [pool.take().port for _ in all_flags]
    pool.close()
    started: list[Worker] = []
    try:
        for port, flags in zip(ports, all_flags, strict=True):
            log = directory / f"worker-{port}.log"
            started.append(Worker(port, flags, log, command or SERVE))
        for worker in started:
            worker.wait_ready()
        yield started
    finally:
        for worker in started:
            worker.stop()


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def generate(port: int, body: dict[str, object], timeout_s: float = 120) -> Answer:
    """POST /generate, not streamed. Raises RuntimeError unless it is answered with 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        raw = msgspec.json.encode(body)
        connection.request("POST", "/generate", raw, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} to /generate: {text[:500]!r}")
        return msgspec.json.decode(text, type=Answer)
    finally:
        connection.close()


def generate_body(
    prompt: tuple[int, ...],
    max_new: int,
    room: int | None = None,
    bootstrap_port: int | None = None,
) -> dict[str, object]:
    """``room``: the same for both halves of a pair; ``bootstrap_port``: prefill's."""
    body: dict[str, object] = {
        "input_ids": list(prompt),
        "sampling_params": {"max_new_tokens": max_new, "temperature": 0, "ignore_eos": True},
    }
    if room is not None:
        body |= {
            "bootstrap_host": HOST,
            "bootstrap_port": bootstrap_port,
            "bootstrap_room": room,
        }
    return body
