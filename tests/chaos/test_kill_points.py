"""The runner killed at random points: nothing is left that `severance heal` does not clean.

A few points run with the quick tests of CI (`-m slow`); ``SEVERANCE_KILLS=50`` is the real thing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from pathlib import Path

import pytest

from chaos import proc
from chaos.recover import recover
from chaos.registry import active_runs
from chaos.residue import find_residue
from tests.chaos.test_runner import everyone, info, running

KILLS = int(os.environ.get("SEVERANCE_KILLS", "5"))
SEED = int(os.environ.get("SEVERANCE_KILL_SEED", "1"))
SPREAD_S = 9.0
SCENARIO = """
name: killed
deployment: {worker: {max_total_tokens: 4096, nice: 0}}
load: {duration_s: 9, warmup_s: 0.1, capacity_share: 0.5, request_timeout_s: 5}
expect: {control_requests: 0}
method:
  - at_s: 0.2
    fault: {kind: link, mode: stall, links: ["kv:*", "control:*"], for_s: 0.4}
  - at_s: 0.9
    fault: {kind: link, mode: refuse, links: ["kv:*", "control:*"], for_s: 0.4}
  - at_s: 1.6
    fault: {kind: link, mode: flap, of: blackhole, links: ["kv:*"], for_s: 0.8, period_s: 0.2, duty: 0.5}
  - at_s: 2.8
    fault: {kind: process, mode: pause, worker: d0, for_s: 0.5}
  - at_s: 3.8
    fault: {kind: process, mode: slow, worker: p0, for_s: 0.7, cpu_share: 0.3}
  - at_s: 5
    fault: {kind: telemetry, mode: collector_stall, for_s: 0.5}
  - at_s: 6
    fault: {kind: process, mode: kill, worker: d0, restart_after_s: 0.2}
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_runner_killed_anywhere_leaves_what_heal_cleans(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = tmp_path / "run"
    point_s = random.Random(f"{SEED}-{number}").uniform(0, SPREAD_S)
    with running(tmp_path, SCENARIO) as process:
        # Points count from the first process: before it there is nothing to leave behind.
        while not (run / "processes.jsonl").exists():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        time.sleep(point_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        recovery = recover(run)
        assert recovery.left == (), f"killed after {point_s:.2f} s"
        assert find_residue(run, info(run).run_id) == []
        assert [who for who in everyone(run) if proc.alive(who)] == []
        again = recover(run)
        assert again.left == ()
    deadline = time.monotonic() + 20
    while active_runs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert active_runs() == []
    for line in (run / "processes.jsonl").read_text().splitlines():
        for port in json.loads(line)["ports"]:
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                free.bind(("127.0.0.1", port))
