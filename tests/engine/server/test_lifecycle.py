"""A worker's beginning and end: flags, ports, a child that dies, signals, health."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from engine.cli import add_commands, add_serve_flags, serve_args
from engine.core.codes import DisaggregationMode
from engine.errors import UsageError
from engine.server.args import ServeArgs, check_args
from tests.engine.server.harness import ROOT, WorkerProcess, running_worker, script, wait_until


def serve_fails(*flags: str) -> tuple[int, str]:
    """Exit code and stderr of a worker that cannot start."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.server.run_worker", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("flag", "wrong"),
    [
        ("--chunked-prefill-size", {"chunked_prefill_size": 250}),
        ("--chunked-prefill-size", {"chunked_prefill_size": 0}),
        ("--page-size", {"page_size": 0}),
        ("--max-total-tokens", {"max_total_tokens": 1000}),
        ("--context-length", {"context_length": 10**6}),
        ("--max-running-requests", {"max_running_requests": 0}),
        ("--max-queued-requests", {"max_queued_requests": -1}),
        ("--random-seed", {"random_seed": -1}),
        ("--model-path", {"model_path": ""}),
        ("--worker-name", {"worker_name": "p 0"}),
        ("--peer-dead-after", {"peer_dead_after_s": 0.1}),
        ("--disaggregation-bootstrap-timeout", {"bootstrap_timeout_s": float("nan")}),
        ("--disaggregation-transfer-timeout", {"transfer_timeout_s": 0.0}),
        ("--request-waiting-timeout", {"request_waiting_timeout_s": -1.0}),
        ("--request-running-timeout", {"request_running_timeout_s": float("inf")}),
        ("--otlp-traces-endpoint", {"otlp_traces_endpoint": "localhost:4318"}),
    ],
)
def test_a_wrong_flag_is_named(flag: str, wrong: dict[str, str | int | float]) -> None:
    args = ServeArgs(mode=DisaggregationMode.UNIFIED)
    check_args(args)
    with pytest.raises(UsageError, match=f"^{flag}: "):
        check_args(msgspec.structs.replace(args, **wrong))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--disaggregation-mode", "prefill"], "--disaggregation-bootstrap-port: "),
        (["--link-map", "kv:nowhere"], "--link-map: "),
        (["--link-map", "tcp:h:1=h:2"], "--link-map: "),
        (["--link-map", "kv:h:1=h:70000"], "--link-map: "),
        (["--port", "70000"], "no port"),
        (["--disaggregation-mode", "both"], "invalid choice"),
        (["--max-total-tokens", "many"], "invalid int"),
    ],
)
def test_the_command_line_is_checked_before_anything_starts(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = run_command(flags)
    except SystemExit as error:  # argparse ends the process itself
        code = int(error.code or 0)
    assert code == 2
    assert words in capsys.readouterr().err


def run_command(flags: list[str]) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    namespace = parser.parse_args(["serve", *flags])
    code: int = namespace.run(namespace)
    return code


def test_flags_become_settings() -> None:
    parser = argparse.ArgumentParser()
    add_serve_flags(parser)
    flags = ["--disaggregation-mode", "null", "--max-total-tokens", "4096"]
    links = ["--link-map", "kv:10.0.0.1:7=127.0.0.1:8", "--link-map", "control:h:1=i:2"]

    args = serve_args(parser.parse_args([*flags, *links]))

    assert args.mode is DisaggregationMode.UNIFIED
    assert args.context_length == 4096
    assert args.worker_name == "u0"
    assert args.link_map == {"kv:10.0.0.1:7": "127.0.0.1:8", "control:h:1": "i:2"}


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, said = serve_fails("--port", port)
        assert code == 2
        assert f"--port: cannot listen on 127.0.0.1:{port}" in said


def test_an_unknown_model_directory_is_named() -> None:
    code, said = serve_fails("--port", "0", "--model-path", "/no/such/model")

    assert code == 2
    assert "--model-path" in said
    assert "/no/such/model" in said


def test_the_childs_last_words_are_shown() -> None:
    code, said = serve_fails("--port", "0", "--random-seed", "666")

    assert code == 1
    last = said.strip().splitlines()[-1]
    assert "could not start (exit code 3): ModelError: seed 666" in last


def test_not_ready_answers_503_and_then_serves(tmp_path: Path) -> None:
    with running_worker() as worker:
        first = worker.get("/health")
        assert first.status in {200, 503}
        assert worker.get("/server_info").json["worker_name"] == "u0"
        worker.wait_ready()
        assert worker.post("/generate", {"text": "x"}).status == 200


def test_a_killed_scheduler_answers_503_and_ends_the_worker() -> None:
    with running_worker() as worker:
        worker.wait_ready()
        plain = worker.post_later("/generate", {"rid": "a", "text": script(hold=True)})
        stream = worker.post_later(
            "/generate", {"rid": "b", "text": script(hold=True), "stream": True}
        )
        worker.wait_open("a")
        worker.wait_open("b")

        killed_at = time.monotonic()
        os.kill(worker.scheduler_pid, signal.SIGKILL)

        error = plain.answer().json["error"]
        assert plain.answer().status == 503
        assert (error["reason"], error["origin"], error["rid"]) == ("shutdown", "server", "a")
        assert stream.answer().events[-1]["error"]["code"] == 503
        assert max(plain.ended_at, stream.ended_at) - killed_at < 1
        assert worker.process.wait(5) == 1
        wait_until(lambda: "killed by SIGKILL" in worker.log[-1])


def test_the_scheduler_ends_with_a_killed_worker() -> None:
    with running_worker() as worker:
        worker.wait_ready()
        pid = worker.scheduler_pid

        worker.process.kill()

        wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_aborts_answers_and_exits_0(number: signal.Signals) -> None:
    with running_worker() as worker:
        worker.wait_ready()
        scheduler_pid = worker.scheduler_pid
        held = worker.post_later("/generate", {"rid": "a", "text": script(hold=True)})
        deaf = worker.post_later("/generate", {"rid": "b", "text": script(hold=True, deaf=True)})
        worker.wait_open("a")
        worker.wait_open("b")

        asked_at = time.monotonic()
        worker.process.send_signal(number)

        for pending in (held, deaf):
            error = pending.answer().json["error"]
            assert pending.answer().status == 503
            assert error["reason"] == "shutdown"
        assert deaf.answer().json["error"]["origin"] == "operator"
        assert worker.process.wait(5) == 0
        assert time.monotonic() - asked_at < 4
        assert not Path(f"/proc/{scheduler_pid}").exists()
        with pytest.raises(OSError, match="refused"):
            worker.get("/health")


def test_health_fails_without_beats_and_comes_back() -> None:
    with running_worker() as worker:
        worker.wait_ready()
        worker.post("/generate", {"text": script(mute_s=2.6)})

        silent = wait_until(lambda: (a := worker.get("/health")).status == 503 and a)
        assert "no beat" in silent.json["error"]["message"]
        worker.wait_ready()

        worker.post("/generate", {"text": script(step_age_s=31)})
        stuck = wait_until(lambda: (a := worker.get("/health")).status == 503 and a)
        assert "in one step for 31 s" in stuck.json["error"]["message"]


def test_a_stopped_scheduler_leaves_admin_calls_bounded() -> None:
    with running_worker() as worker:
        worker.wait_ready()
        os.kill(worker.scheduler_pid, signal.SIGSTOP)
        started = time.monotonic()
        try:
            assert worker.get("/ledger").status == 503
            assert 1.5 < time.monotonic() - started < 4
            assert worker.get("/health").status == 503
            assert worker.get("/metrics").status == 200
        finally:
            os.kill(worker.scheduler_pid, signal.SIGCONT)


def test_a_killed_worker_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with running_worker() as worker:
        worker.wait_ready()
        wait_until(lambda: not any(tmp_path.iterdir()))
        assert worker.post("/generate", {"text": "x"}).status == 200  # its sockets live on
        worker.process.kill()
        worker.process.wait(5)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_starting_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.server.run_worker", "--port", "0"],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: any(tmp_path.iterdir()), 15)
    (private,) = tmp_path.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    process.terminate()

    assert process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_long_temporary_path_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    code, said = serve_fails("--port", "0")
    assert code == 1
    assert "set TMPDIR" in said


def test_a_dead_collector_does_not_slow_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        with running_worker("--otlp-traces-endpoint", url) as worker:
            worker.wait_ready()
            for _ in range(5):
                assert worker.post("/generate", {"text": "x"}).status == 200
            started = time.monotonic()
            assert worker.end() == 0
            assert time.monotonic() - started < 4


def test_the_rendezvous_of_a_prefill_worker(prefill: WorkerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", prefill.bootstrap_port, timeout=5)
    connection.request("GET", "/route")
    response = connection.getresponse()
    route = json.loads(response.read())
    connection.close()

    assert response.status == 200
    assert route["incarnation"] == prefill.get("/server_info").json["incarnation"]
    assert (route["control_host"], route["control_port"]) == ("127.0.0.1", 7777)
    assert (route["worker_name"], route["page_size"], route["dtype"], route["fingerprint"]) == (
        "p0",
        16,
        "float32",
        "f00d",
    )
