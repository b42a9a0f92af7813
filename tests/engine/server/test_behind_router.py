"""The real SGLang router in PD mode in front of our two halves: what gets through it, and what does not."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.engine.server.harness import (
    Answer,
    Collector,
    HttpClient,
    Json,
    WorkerProcess,
    attributes,
    script,
    wait_until,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def router(
    prefill: WorkerProcess, decode: WorkerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpClient]:
    log = tmp_path_factory.mktemp("router") / "log"
    client = HttpClient(free_port())
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "sglang_router.launch_router", "--pd-disaggregation"),
                *("--prefill", f"http://127.0.0.1:{prefill.port}", str(prefill.bootstrap_port)),
                *("--decode", f"http://127.0.0.1:{decode.port}", "--policy", "round_robin"),
                *("--host", "127.0.0.1", "--port", str(client.port), "--disable-retries"),
                *("--prometheus-port", str(free_port()), "--disable-circuit-breaker"),
            ],
            stdout=file,
            stderr=file,
        )
        try:
            wait_until(lambda: generates(client), 20)
            yield client
        finally:
            process.terminate()
            process.wait(10)
    assert "huggingface.co" not in log.read_text()  # no look-up of our model's name on a hub


def generates(client: HttpClient) -> bool:
    try:
        return client.post("/generate", {"text": "x"}).status == 200
    except OSError:
        return False


def post(client: HttpClient, body: Json) -> Answer:
    return client.post("/generate", body, {"traceparent": f"00-{TRACE}-{PARENT}-01"})


def test_one_request_is_one_trace_on_both_halves(
    router: HttpClient, prefill: WorkerProcess, decode: WorkerProcess, collector: Collector
) -> None:
    body = {"rid": "r-both", "text": script(tokens=2), "return_logprob": True}

    answer = post(router, body | {"top_logprobs_num": 2})

    assert answer.json["text"] == "ab"
    assert len(answer.json["meta_info"]["output_top_logprobs"]) == 2
    rooms = {half.seen("generates", "r-both")[0]["bootstrap_room"] for half in (prefill, decode)}
    assert len(rooms) == 1
    roles = wait_until(
        lambda: (
            len(found := [s for s in collector.spans("r-both") if s.name == "request"]) == 2
            and found
        )
    )
    assert {attributes(span)["pd.role"] for span in roles} == {"prefill", "decode"}
    assert {(s.trace_id.hex(), s.parent_span_id.hex()) for s in roles} == {(TRACE, PARENT)}


def test_a_stream_gets_through(router: HttpClient) -> None:
    answer = post(router, {"text": script(tokens=3), "stream": True})

    assert answer.events[-1]["text"] == "abc"


@pytest.mark.parametrize(
    ("stream", "reason", "status"),
    [
        (True, "transfer_timeout", 504),
        (True, "peer_dead", 503),
        (False, "peer_dead", 503),
        (False, "transfer_failed", 500),
        (False, "transfer_timeout", 500),  # sent as 504; the router knows no 504 here
    ],
)
def test_a_server_abort_names_its_codes(
    router: HttpClient, stream: bool, reason: str, status: int
) -> None:
    rid = f"r-cut-{reason}-{stream}"
    body = {"rid": rid, "text": script(tokens=0, abort=reason), "stream": stream}

    answer = post(router, body)

    assert answer.status == status
    assert f"reason {reason}, stage mid_chunk, rid {rid}".encode() in answer.body


@pytest.mark.parametrize("stream", [False, True])
def test_a_disconnect_reaches_both_halves(
    router: HttpClient, prefill: WorkerProcess, decode: WorkerProcess, stream: bool
) -> None:
    rid = f"r-gone-{stream}"
    body = {"rid": rid, "text": script(tokens=0, hold=True), "stream": stream}
    with closing(router.open_stream("/generate", body)):
        prefill.wait_open(rid)
        decode.wait_open(rid)
        left_ns = time.monotonic_ns()

    for half in (prefill, decode):
        (abort,) = wait_until(lambda half=half: half.seen("aborts", rid))
        assert abort["reason"] == "client_disconnect"
        assert abort["seen_ns"] - left_ns < 500_000_000


def test_a_deadline_does_not_get_through(
    router: HttpClient, prefill: WorkerProcess, decode: WorkerProcess
) -> None:
    """The router drops what it does not know, custom_params too: behind it, the flags of the workers."""
    assert (
        post(router, {"rid": "r-due", "text": script(tokens=1), "deadline_s": 30.0}).status == 200
    )

    for half in (prefill, decode):
        assert half.seen("generates", "r-due")[0]["deadline_ns"] == 0
