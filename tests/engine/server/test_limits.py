"""Deadlines, limits and operator calls over HTTP, on real workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.engine.server.harness import ROOT, Answer, Json, Pending, WorkerProcess, wait_until

LIMITS = ("--max-queued-requests", "1", "--request-waiting-timeout", "0.8")


@contextmanager
def real_worker(*flags: str) -> Iterator[WorkerProcess]:
    process = subprocess.Popen(
        [sys.executable, "-m", "severance", "serve", "--port", "0", *flags],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker = WorkerProcess(process)
    try:
        wait_until(lambda: worker.get("/health").status == 200, 20)
        yield worker
    finally:
        worker.end()


@pytest.fixture(scope="module")
def unified() -> Iterator[WorkerProcess]:
    flags = ("--max-running-requests", "1", "--request-running-timeout", "1.5")
    with real_worker(*LIMITS, *flags) as worker:
        yield worker


@pytest.fixture(scope="module", params=["prefill", "decode"])
def half(request: pytest.FixtureRequest) -> Iterator[WorkerProcess]:
    """One half of a pair whose other half never comes."""
    flags = ("--disaggregation-mode", str(request.param), "--disaggregation-bootstrap-port", "0")
    with real_worker(*LIMITS, *flags) as worker:
        yield worker


def body(rid: str, max_new: int = 20_000, **more: object) -> Json:
    params = {"max_new_tokens": max_new, "ignore_eos": True}
    return {"rid": rid, "text": "Once upon a time", "sampling_params": params, **more}


def later(worker: WorkerProcess, request: Json) -> Pending:
    pending = worker.post_later("/generate", request)
    worker.wait_open(request["rid"])
    return pending


def abort_codes(answer: Answer) -> tuple[int, str, str]:
    codes = (
        answer.json["error"] if answer.status != 200 else answer.json["meta_info"]["finish_reason"]
    )
    return answer.status, codes["reason"], codes["origin"]


def wait_clean(worker: WorkerProcess) -> None:
    def is_clean() -> bool:
        ledger = worker.get("/ledger").json
        return not (ledger["requests"] or ledger["holders"] or ledger["rid_to_state"])

    wait_until(is_clean)
    resources = worker.get("/ledger").json["resources"].values()
    assert all(count["free"] == count["total"] for count in resources)


def test_deadline_of_the_client_is_a_normal_answer(unified: WorkerProcess) -> None:
    answer = unified.post("/generate", body("own", deadline_s=0.4))
    assert abort_codes(answer) == (200, "deadline", "client")
    assert answer.json["meta_info"]["completion_tokens"] == len(answer.json["output_ids"]) > 0
    wait_clean(unified)


def test_server_info_shows_the_limits(unified: WorkerProcess) -> None:
    info = unified.get("/server_info").json
    assert (info["request_waiting_timeout"], info["request_running_timeout"]) == (0.8, 1.5)
    assert info["abort_granularity"] == "layer"


def test_running_timeout_is_an_error(unified: WorkerProcess) -> None:
    answer = unified.post("/generate", body("slow"))
    assert abort_codes(answer) == (504, "deadline", "server")
    assert answer.json["error"]["stage"] == "running"
    wait_clean(unified)


def test_waiting_timeout_and_queue_limit(unified: WorkerProcess) -> None:
    runs = later(unified, body("runs", deadline_s=1.4))
    waits = later(unified, body("waits"))
    full = unified.post("/generate", body("full"))
    assert abort_codes(full) == (503, "queue_full", "server")
    assert abort_codes(waits.answer()) == (504, "deadline", "server")
    assert waits.answer().json["error"]["stage"] == "waiting"
    assert abort_codes(runs.answer())[1:] == ("deadline", "client")
    wait_clean(unified)


def test_waiting_timeout_and_queue_limit_in_a_half(half: WorkerProcess) -> None:
    room = {"bootstrap_host": "127.0.0.1", "bootstrap_port": 9}
    waits = later(half, body("waits", 4, bootstrap_room=1, **room))
    full = half.post("/generate", body("full", 4, bootstrap_room=2, **room))
    assert abort_codes(full) == (503, "queue_full", "server")
    assert abort_codes(waits.answer()) == (504, "deadline", "server")
    assert waits.answer().json["error"]["stage"] == "bootstrap"
    own = half.post("/generate", body("own", 4, bootstrap_room=3, deadline_s=0.1, **room))
    assert abort_codes(own) == (200, "deadline", "client")
    wait_clean(half)


@pytest.mark.parametrize("deadline_s", [0, -1, 100_000, "soon"])
def test_a_deadline_that_cannot_be_is_refused(unified: WorkerProcess, deadline_s: object) -> None:
    answer = unified.post("/generate", body("bad", deadline_s=deadline_s))
    assert (answer.status, answer.json["error"]["field"]) == (400, "deadline_s")


def test_pause_abort_continue(unified: WorkerProcess) -> None:
    """While paused nothing is computed, aborts are answered, and the rest goes on afterwards."""
    lives = later(unified, body("lives", 40))
    assert unified.post("/pause_generation", {}).json["paused"] is True
    doomed = later(unified, body("doomed"))
    assert unified.post("/abort_request", {"rid": "doomed"}).json["matched"] == 1
    assert abort_codes(doomed.answer()) == (200, "client_abort", "client")
    assert unified.post("/continue_generation", {}).json["paused"] is False
    assert lives.answer().json["meta_info"]["completion_tokens"] == 40
    wait_clean(unified)


def test_flush_only_when_idle(unified: WorkerProcess) -> None:
    assert unified.post("/flush_cache", {}).status == 200
    open_one = later(unified, body("open"))
    assert unified.post("/flush_cache", {}).status == 400
    unified.post("/abort_request", {"rid": "open"})
    open_one.answer()
    wait_clean(unified)
    assert unified.post("/flush_cache", {}).status == 200


def test_abort_all(unified: WorkerProcess) -> None:
    pending = [later(unified, body(rid)) for rid in ("one", "two")]
    assert unified.post("/abort_request", {"abort_all": True}).json["matched"] == 2
    for each in pending:
        assert abort_codes(each.answer()) == (200, "client_abort", "client")
    assert unified.post("/abort_request", {"abort_all": True}).json["matched"] == 0
    wait_clean(unified)


def test_double_abort_has_one_answer_and_the_rid_serves_again(unified: WorkerProcess) -> None:
    expected = unified.post("/generate", body("control", 6)).json["output_ids"]
    doomed = later(unified, body("twice"))
    for _ in range(3):
        unified.post("/abort_request", {"rid": "twice"})
    assert abort_codes(doomed.answer()) == (200, "client_abort", "client")
    assert unified.post("/generate", body("twice", 6)).json["output_ids"] == expected
    wait_clean(unified)
