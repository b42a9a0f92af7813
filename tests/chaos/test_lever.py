"""The brake of the machine: a file or an endpoint that halts every run and lets none start."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chaos.cli import add_commands
from chaos.codes import ExitCode
from chaos.errors import BrakeOn, Halted
from chaos.interrupt import Brake
from chaos.lever import lever_pulls, put_on, require_off, take_off, why_on


@pytest.fixture(autouse=True)
def brake_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "brake"
    monkeypatch.setenv("SEVERANCE_BRAKE", str(path))
    return path


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The status that it answers with; change it in place."""
    status = [200]

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("SEVERANCE_BRAKE_URL", f"http://127.0.0.1:{server.server_port}/go")
        yield status
        server.shutdown()
        thread.join()


def command(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(dest="command"))
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


def test_a_file_made_by_anybody_lets_no_run_start(brake_file: Path) -> None:
    require_off()
    brake_file.touch()
    with pytest.raises(BrakeOn, match=r"severance brake off"):
        require_off()
    assert take_off() == [brake_file]
    require_off()


def test_pulled_during_a_run_it_halts_it_at_once(brake: Brake) -> None:
    with lever_pulls(brake):
        brake.sleep(0.3)
        pulled_at = time.monotonic()
        put_on("fire drill")
        with pytest.raises(Halted, match="fire drill"):
            brake.sleep(10)
    assert time.monotonic() - pulled_at < 3


def test_an_endpoint_that_says_stop_halts_too(brake: Brake, endpoint: list[int]) -> None:
    require_off()
    with lever_pulls(brake):
        brake.sleep(1.5)
        endpoint[0] = 503
        with pytest.raises(Halted, match="HTTP 503"):
            brake.sleep(10)
    with pytest.raises(BrakeOn):
        require_off()


def test_an_endpoint_that_is_gone_is_no_permission(
    brake: Brake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVERANCE_BRAKE_URL", "http://127.0.0.1:9/")
    with pytest.raises(BrakeOn, match="does not answer"):
        require_off()
    with lever_pulls(brake), pytest.raises(Halted, match="does not answer"):
        brake.sleep(15)


def test_the_command(brake_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("brake", "status") == ExitCode.PASSED
    assert command("brake", "on", "--reason", "upgrade") == ExitCode.PASSED
    assert "upgrade" in (why_on() or "")
    assert command("brake", "status") == ExitCode.HALTED
    assert "upgrade" in capsys.readouterr().out
    assert command("brake", "off") == ExitCode.PASSED
    assert not brake_file.exists()


def test_run_is_refused_while_it_is_on(
    brake_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("name: x\n")
    brake_file.write_text("stop")
    assert command("run", str(scenario), "--out", str(tmp_path / "o")) == ExitCode.HALTED
    assert "the brake is on" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
