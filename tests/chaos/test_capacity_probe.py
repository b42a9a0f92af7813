"""The capacity probe asks for every page and believes only a whole answer."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from chaos.capacity_probe import num_probe_tokens, probe_capacity
from chaos.journal import Journal
from chaos.links import Endpoint
from chaos.records import ResourceCount, RunEvent, WorkerLedger, read_jsonl

PAGE_SIZE = 16


def ledger(free: int) -> WorkerLedger:
    return WorkerLedger(
        worker="p0",
        role="prefill",
        incarnation="i",
        step=0,
        idle=True,
        resources={"kv_pages": ResourceCount(total=free, free=free, held=0)},
        holders=(),
        rooms_open=0,
        rooms_terminal=0,
        requests=0,
        rid_to_state=0,
        queues={},
        conservation=(),
    )


def pages(num_tokens: int) -> int:
    return math.ceil(num_tokens / PAGE_SIZE)


@pytest.mark.parametrize("free", [2, 64, 1024])
def test_it_needs_exactly_the_free_pages_on_both_roles(free: int) -> None:
    num_tokens = num_probe_tokens({"p0": ledger(free), "d0": ledger(free + 3)}, PAGE_SIZE)
    assert num_tokens is not None
    assert pages(num_tokens) == free, "prefill holds the prompt"
    assert pages(num_tokens + 4) == free, "decode holds the prompt and the output"


def test_no_baseline_no_probe() -> None:
    assert num_probe_tokens({}, PAGE_SIZE) is None


@contextmanager
def router(status: int, body: dict[str, object]) -> Iterator[tuple[Endpoint, list[bytes]]]:
    bodies: list[bytes] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield Endpoint("127.0.0.1", server.server_port), bodies
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "ok"),
    [
        (
            200,
            {
                "text": "abcd",
                "meta_info": {"completion_tokens": 4, "finish_reason": {"type": "length"}},
            },
            True,
        ),
        (
            200,
            {"text": "", "meta_info": {"completion_tokens": 0, "finish_reason": {"type": "abort"}}},
            False,
        ),
        (503, {"error": {"reason": "kv_exhausted"}}, False),
    ],
)
def test_the_answer_decides(
    journal: Journal, tmp_path: Path, status: int, body: dict[str, object], ok: bool
) -> None:
    with router(status, body) as (endpoint, bodies):
        assert probe_capacity(endpoint, "p0-d0", 500, 5.0, journal, seed=1) is ok
    asked = json.loads(bodies[0])
    assert len(asked["input_ids"]) == 500
    [event] = read_jsonl(tmp_path / "events.jsonl", RunEvent)
    assert (event.name, event.ok, event.value, event.limit) == ("capacity:p0-d0", ok, 500, 5.0)


def test_no_answer_is_a_failed_probe(journal: Journal) -> None:
    endpoint = Endpoint("127.0.0.1", 9)
    assert not probe_capacity(endpoint, "p0-d0", 10, 0.5, journal, seed=1)
