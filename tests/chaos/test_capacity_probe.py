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
from chaos.pairs import Pair
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
    baseline = {"p0": ledger(free), "d0": ledger(free + 3), "d1": ledger(free // 2)}
    num_tokens = num_probe_tokens(baseline, ("p0", "d0"), PAGE_SIZE)
    assert num_tokens is not None
    assert pages(num_tokens) == free, "prefill holds the prompt"
    assert pages(num_tokens + 4) == free, "decode holds the prompt and the output"


def test_no_baseline_no_probe() -> None:
    assert num_probe_tokens({}, ("p0", "d0"), PAGE_SIZE) is None
    assert num_probe_tokens({"p0": ledger(8)}, ("p0", "d0"), PAGE_SIZE) is None


def completed(num_tokens: int) -> dict[str, object]:
    return {"text": "abcd", "meta_info": {"completion_tokens": num_tokens}}


@contextmanager
def worker(status: int, body: dict[str, object]) -> Iterator[tuple[Endpoint, list[bytes]]]:
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


def pair_of(prefill: Endpoint, decode: Endpoint) -> Pair:
    return Pair(
        prefill="p0",
        decode="d1",
        prefill_http=prefill,
        decode_http=decode,
        bootstrap=Endpoint("127.0.0.1", 8998),
    )


@pytest.mark.parametrize(
    ("prefill", "decode", "ok"),
    [
        ((200, completed(1)), (200, completed(4)), True),
        ((200, completed(1)), (200, completed(0)), False),
        ((200, completed(1)), (503, {"error": {"reason": "kv_exhausted"}}), False),
        ((503, {"error": {"reason": "kv_exhausted"}}), (200, completed(4)), False),
    ],
)
def test_both_halves_decide(
    journal: Journal,
    tmp_path: Path,
    prefill: tuple[int, dict[str, object]],
    decode: tuple[int, dict[str, object]],
    ok: bool,
) -> None:
    with worker(*prefill) as (p0, left), worker(*decode) as (d1, right):
        assert probe_capacity(pair_of(p0, d1), 500, 5.0, journal, seed=1) is ok
    asked = json.loads(left[0])
    assert left == right, "both halves get the same body"
    assert len(asked["input_ids"]) == 500
    assert (asked["bootstrap_host"], asked["bootstrap_port"]) == ("127.0.0.1", 8998)
    assert asked["bootstrap_room"] >= 0
    [event] = read_jsonl(tmp_path / "events.jsonl", RunEvent)
    assert (event.name, event.ok, event.value, event.limit) == ("capacity:p0-d1", ok, 500, 5.0)


def test_no_answer_is_a_failed_probe(journal: Journal) -> None:
    with worker(200, completed(4)) as (p0, _):
        dead = Endpoint("127.0.0.1", 9)
        assert not probe_capacity(pair_of(p0, dead), 10, 0.5, journal, seed=1)
