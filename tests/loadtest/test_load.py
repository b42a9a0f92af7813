"""The open loop as a whole: honest latencies, late sends, hung requests, signals."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.history import Outcome

if TYPE_CHECKING:
    from tests.loadtest.conftest import LoadResult, StubProcess

NS_PER_MS = 1e6


def test_first_token_is_seen_when_it_arrives(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult]
) -> None:
    """A reader that fills a block first would see it several tokens late (187 ms instead of 50)."""
    server = stub("--ttft-ms", "100", "--itl-ms", "50")
    result = load(
        *("--url", server.url, "--request-rate", "4", "--arrival-pattern", "constant"),
        *("--num-prompts", "6", "--osl-min", "10", "--osl-max", "10"),
    )
    summary = result.summary()
    assert 100 <= summary["median_ttft_ms"] < 140
    assert 50 <= summary["median_itl_ms"] < 65
    assert 50 <= summary["median_tpot_ms"] < 65
    assert 550 <= summary["median_e2el_ms"] < 700
    assert summary["completed"] == 6
    assert summary["total_output_tokens"] == 60
    for sent, end in result.in_order():
        assert end.first_ns - sent.sent_ns >= 100 * NS_PER_MS
        assert end.last_ns - end.first_ns >= 9 * 50 * NS_PER_MS


def test_open_loop_does_not_wait_for_a_slow_server(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult]
) -> None:
    server = stub("--mode", "hang")
    begun = time.monotonic()
    result = load(
        *("--url", server.url, "--request-rate", "20", "--arrival-pattern", "constant"),
        *("--duration", "1.01", "--request-timeout", "1.5"),
    )
    assert result.code == 0
    assert time.monotonic() - begun < 20
    sent, ends = result.records()
    assert len(sent) == 20
    assert not ends, "hung requests have no end"
    assert result.summary()["hung"] == 20
    assert "failed 20" in result.stderr
    assert len(server.events("disconnect")) == 20, (
        "a hung request is given up: its socket is closed"
    )


def test_late_sends_are_told(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult]
) -> None:
    server = stub("--itl-ms", "0")
    result = load(
        *("--url", server.url, "--request-rate", "20", "--num-prompts", "3"),
        *("--max-send-lag-ms", "0.0001"),
    )
    assert result.code == 4
    assert "Lower --request-rate" in result.stderr
    assert result.summary()["valid"] is False
    assert len(result.in_order()) == 3


def test_goodput(stub: Callable[..., StubProcess], load: Callable[..., LoadResult]) -> None:
    server = stub("--ttft-ms", "50", "--itl-ms", "0")
    options = ("--url", server.url, "--request-rate", "20", "--num-prompts", "4", "--goodput")
    assert load(*options, "ttft:20").summary()["request_goodput"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_leaves_a_complete_history(
    number: signal.Signals,
    stub: Callable[..., StubProcess],
    start_load: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    server = stub("--mode", "normal,hang", "--itl-ms", "1")
    process = start_load(
        *("--url", server.url, "--request-rate", "50", "--duration", "60", "--osl-max", "16")
    )
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("load    1 s"):
        assert line, process.wait(5)
    begun = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=10)
    assert time.monotonic() - begun < 5
    assert process.returncode == 130

    from tests.loadtest.conftest import LoadResult

    result = LoadResult(process.returncode, "", tmp_path / "out")
    sent, ends = result.records()
    assert len(sent) > 10
    assert sent.keys() == ends.keys()
    outcomes = {end.outcome for end in ends.values()}
    assert outcomes <= {Outcome.COMPLETED, Outcome.CONN_ERROR, Outcome.NOT_SENT}
    stopped = [end for end in ends.values() if end.outcome is Outcome.CONN_ERROR]
    assert stopped
    assert all(end.error_message == "the load driver was stopped" for end in stopped)
    assert result.summary()["interrupted"] is True


def test_two_runs_with_one_seed_send_the_same(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--itl-ms", "0")
    options = ("--url", server.url, "--request-rate", "50", "--num-prompts", "10", "--seed", "4")
    load(*options)
    result = load(*options)
    _, bodies = zip(
        *sorted((call["at_ns"], call["body"]["text"]) for call in server.events("generate")),
        strict=True,
    )
    assert sorted(bodies[:10]) == sorted(bodies[10:])
    assert len(set(bodies)) == 10
    sent, _ = result.records()
    assert len(sent) == 20, "the second run appends, with rids of its own"
