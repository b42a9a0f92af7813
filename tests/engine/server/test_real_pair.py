"""A real pair without a router: optimistic prefill, and polls that fail on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.engine.server.harness import ROOT, Json, Pending, WorkerProcess, wait_until

NUM_REQUESTS = 150
PROMPT = list(range(1, 100))


def start_worker(role: str, environment: dict[str, str], *flags: str) -> WorkerProcess:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "severance", "serve", "--port", "0"),
            *("--disaggregation-mode", role, *flags),
        ],
        cwd=ROOT,
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    return WorkerProcess(process)


class RealPair:
    """Two halves, and a client that is its own router."""

    def __init__(self, prefill: WorkerProcess, decode: WorkerProcess) -> None:
        self.prefill, self.decode = prefill, decode
        self.num_rooms = 0

    @property
    def halves(self) -> tuple[WorkerProcess, WorkerProcess]:
        return (self.prefill, self.decode)

    def body(self, rid: str) -> Json:
        self.num_rooms += 1
        return {
            "rid": rid,
            "input_ids": PROMPT,
            "sampling_params": {"max_new_tokens": 3, "ignore_eos": True},
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": self.prefill.bootstrap_port,
            "bootstrap_room": self.num_rooms,
        }

    def send(self, rid: str) -> list[Pending]:
        body = self.body(rid)
        return [half.post_later("/generate", body) for half in self.halves]


@pytest.fixture(scope="module")
def pair() -> Iterator[RealPair]:
    environment = {
        "SGLANG_TEST_DISAGG_FAILURE_PROB": "0.05",
        "SEVERANCE_TEST_DISAGG_FAILURE_SEED": "3",
    }
    own = ("--disaggregation-bootstrap-port", "0", "--optimistic-prefill-attempts", "1")
    with ExitStack() as stack:
        halves = []
        for role, flags in (("prefill", own), ("decode", ())):
            half = start_worker(role, environment, *flags)
            stack.callback(half.end)
            halves.append(half)
        for half in halves:  # both load their model at the same time
            wait_until(lambda half=half: half.get("/health").status == 200, 50)
        yield RealPair(*halves)


@pytest.mark.timeout(120)
def test_failed_polls_end_their_requests_and_nothing_else(pair: RealPair) -> None:
    """Every half answers; each failure that fired is one room; both ledgers come back to the baseline."""
    for first in range(0, NUM_REQUESTS, 10):
        sent = [pair.send(f"r{number}") for number in range(first, first + 10)]
        for each in sent:
            answers = [pending.answer() for pending in each]
            errors = [a.json["error"] for a in answers if a.status != 200]
            assert all(error["reason"] == "transfer_failed" for error in errors), errors
            assert all("on purpose" in error["message"] for error in errors), errors
            first_half, second_half = (answer.status for answer in answers)
            assert second_half == 200 or first_half != 200, "prefill ended well without decode"
    for half in pair.halves:
        wait_until(lambda half=half: half.get("/ledger").json["idle"])
        ledger = half.get("/ledger").json
        assert ledger["holders"] == []
        assert all(each["free"] == each["total"] for each in ledger["resources"].values())
        fired = ledger["poll_failures_injected"]
        own = [count for labels, count in aborts(half).items() if 'via="local"' in labels]
        assert 0 < fired == sum(own)
        wait_until(lambda half=half, fired=fired: shown(half) == fired)
        assert half.get("/server_info").json["test_disagg_failure_prob"] == 0.05
        assert any("polls of rooms fail on purpose" in line for line in half.log)


def aborts(worker: WorkerProcess) -> dict[str, float]:
    """Aborts by their labels."""
    found = re.findall(r"^severance_aborts_total\{(.*)\} (\S+)$", metrics(worker), re.MULTILINE)
    return {labels: float(count) for labels, count in found}


def shown(worker: WorkerProcess) -> float:
    """The counter of what fired; it is sampled every 250 ms."""
    found = re.findall(
        r"^severance_poll_failures_injected_total\{.*\} (\S+)$", metrics(worker), re.MULTILINE
    )
    return float(found[0])


def metrics(worker: WorkerProcess) -> str:
    return worker.get("/metrics").body.decode()


def test_prefill_computes_before_decode_has_the_request(pair: RealPair) -> None:
    """Until one gets through without a failed poll."""
    for number in range(20):
        body = pair.body(f"early{number}")
        first = pair.prefill.post_later("/generate", body)
        view = wait_until(lambda body=body: computed(pair.prefill, body["rid"]))
        assert view["stage"] == "waiting"
        answer = pair.decode.post("/generate", body)
        ended = first.answer()
        if answer.status == ended.status == 200:
            assert len(answer.json["output_ids"]) == 3
            assert ended.json["meta_info"]["finish_reason"]["type"] == "length"
            return
    raise AssertionError("not one of 20 got through")


def computed(prefill: WorkerProcess, rid: str) -> Json | None:
    """What the scheduler says of ``rid``, once its whole prompt is computed."""
    answer = prefill.get(f"/requests/{rid}")
    if answer.status != 200:
        return None
    (view,) = answer.json if isinstance(answer.json, list) else answer.json["requests"]
    return view if view["num_cached_tokens"] == len(PROMPT) else None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SGLANG_TEST_DISAGG_FAILURE_PROB", "1.5"),
        ("SGLANG_TEST_DISAGG_FAILURE_PROB", "often"),
        ("SGLANG_TEST_DISAGG_FAILURE_PROB", "nan"),
        ("SEVERANCE_TEST_DISAGG_FAILURE_SEED", "-1"),
    ],
)
def test_a_wrong_setting_in_the_environment_is_refused(name: str, value: str) -> None:
    """It was silently inert in SGLang for months."""
    ended = subprocess.run(
        [sys.executable, "-m", "severance", "serve"],
        cwd=ROOT,
        env=os.environ | {name: value},
        capture_output=True,
        text=True,
        timeout=15,
    )
    assert ended.returncode == 2
    assert name in ended.stderr
