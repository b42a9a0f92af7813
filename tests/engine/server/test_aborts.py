"""Aborts from outside: `/abort_request` and disconnects. The scheduler is told exactly once."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from tests.engine.server.harness import Json, WorkerProcess, script, wait_until


def held(worker: WorkerProcess, rid: str, **fields: object) -> Json:
    """The body of a request that runs until it is aborted."""
    return {"rid": rid, "text": script(hold=True, **fields)}


def test_abort_by_exact_rid(worker: WorkerProcess) -> None:
    first = worker.post_later("/generate", held(worker, "x_1", tokens=2))
    second = worker.post_later("/generate", held(worker, "x_10"))
    worker.wait_open("x_1")
    worker.wait_open("x_10")

    answer = worker.post("/abort_request", {"rid": "x_1"})

    assert (answer.status, answer.json["matched"]) == (200, 1)
    finish = first.answer().json["meta_info"]["finish_reason"]
    assert (finish["type"], finish["reason"], finish["stage"]) == (
        "abort",
        "client_abort",
        "mid_chunk",
    )
    assert first.answer().json["text"] == "ab"
    assert worker.num_open() == 1
    assert worker.post("/abort_request", {"rid": "x_1", "prefix": True}).json["matched"] == 1
    assert second.answer().status == 200


def test_abort_all(worker: WorkerProcess) -> None:
    pending = [worker.post_later("/generate", held(worker, f"all-{i}")) for i in range(3)]
    for i in range(3):
        worker.wait_open(f"all-{i}")

    assert worker.post("/abort_request", {"abort_all": True}).json["matched"] == 3
    assert [entry.answer().status for entry in pending] == [200] * 3


def test_unknown_rid_is_a_no_op_that_says_so(worker: WorkerProcess) -> None:
    answer = worker.post("/abort_request", {"rid": "nobody"})

    assert answer.status == 200
    assert answer.json["matched"] == 0
    assert "nobody" in answer.json["message"]
    assert worker.seen("aborts", "nobody") == []


def test_a_second_abort_matches_and_sends_nothing(worker: WorkerProcess) -> None:
    pending = worker.post_later("/generate", held(worker, "double", deaf=True))
    worker.wait_open("double")

    matched = [worker.post("/abort_request", {"rid": "double"}).json["matched"] for _ in range(3)]

    assert matched == [1, 1, 1]
    (abort,) = worker.seen("aborts", "double")
    assert (abort["reason"], abort["origin"]) == ("client_abort", "client")
    assert pending.ended_at == 0  # the answer waits for the scheduler's release
    worker.post("/generate", {"text": script(end_rid="double", end_reason="client_abort")})
    assert pending.answer().status == 200


def test_no_output_after_the_abort(worker: WorkerProcess) -> None:
    pending = worker.post_later("/generate", held(worker, "late", tokens=2, late_tokens=5))
    worker.wait_open("late")

    worker.post("/abort_request", {"rid": "late"})

    answer = pending.answer().json
    assert answer["text"] == "ab"
    assert answer["meta_info"]["completion_tokens"] == 2


def test_a_stream_ends_with_what_it_had(worker: WorkerProcess) -> None:
    body = held(worker, "late-stream", tokens=3, late_tokens=5) | {"stream": True}
    pending = worker.post_later("/generate", body)
    worker.wait_open("late-stream")

    worker.post("/abort_request", {"rid": "late-stream"})

    answer = pending.answer()
    last = answer.events[-1]
    assert answer.status == 200
    assert last["meta_info"]["finish_reason"]["type"] == "abort"
    assert last["text"] == answer.events[-2]["text"] if len(answer.events) > 1 else True
    assert last["meta_info"]["completion_tokens"] == len(last["output_ids"]) <= 3


def test_an_abort_that_meets_the_end_is_still_an_abort(worker: WorkerProcess) -> None:
    pending = worker.post_later("/generate", held(worker, "photo", tokens=2, finish_late=True))
    worker.wait_open("photo")

    worker.post("/abort_request", {"rid": "photo"})

    finish = pending.answer().json["meta_info"]["finish_reason"]
    assert (finish["type"], finish["reason"], finish["stage"]) == (
        "abort",
        "client_abort",
        "running",
    )


def read_until(connection: socket.socket, words: bytes) -> bytes:
    got = b""
    while words not in got:
        chunk = connection.recv(65_536)
        assert chunk, f"closed before {words!r}: {got!r}"
        got += chunk
    return got


def close_hard(connection: socket.socket) -> None:
    """Close with RST, as a killed client's kernel may."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("hard", [False, True])
def test_disconnect_before_any_output(worker: WorkerProcess, stream: bool, hard: bool) -> None:
    rid = f"gone-early-{stream}-{hard}"
    connection = worker.open_stream("/generate", held(worker, rid, tokens=0) | {"stream": stream})
    worker.wait_open(rid)

    left_ns = time.monotonic_ns()
    close_hard(connection) if hard else connection.close()

    assert_one_abort(worker, rid, left_ns)


def test_disconnect_of_a_plain_request_with_output(worker: WorkerProcess) -> None:
    connection = worker.open_stream("/generate", held(worker, "gone-plain", tokens=4))
    worker.wait_open("gone-plain")

    left_ns = time.monotonic_ns()
    connection.close()

    assert_one_abort(worker, "gone-plain", left_ns)


def test_disconnect_in_mid_stream(worker: WorkerProcess) -> None:
    body = held(worker, "gone-stream", tokens=3, late_tokens=3) | {"stream": True}
    connection = worker.open_stream("/generate", body)
    read_until(connection, b'"text":"abc"')

    left_ns = time.monotonic_ns()
    connection.close()

    assert_one_abort(worker, "gone-stream", left_ns)


def assert_one_abort(worker: WorkerProcess, rid: str, left_ns: int) -> None:
    wait_until(lambda: worker.seen("aborts", rid))
    wait_until(lambda: worker.num_open() == 0)
    (abort,) = worker.seen("aborts", rid)
    assert (abort["reason"], abort["origin"]) == ("client_disconnect", "client")
    assert (abort["seen_ns"] - left_ns) / 1e6 < 100


def test_a_disconnect_after_the_answer_aborts_nothing(worker: WorkerProcess) -> None:
    connection = worker.open_stream("/generate", {"rid": "polite", "text": "x"})
    read_until(connection, b'"text":"abc"')
    connection.close()

    assert worker.post("/generate", {"text": "x"}).status == 200
    assert worker.seen("aborts", "polite") == []


def test_a_half_sent_body_starts_nothing(worker: WorkerProcess) -> None:
    connection = socket.create_connection(("127.0.0.1", worker.port))
    connection.sendall(b'POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"rid"')
    connection.close()

    assert worker.post("/generate", {"text": "x"}).status == 200
    assert worker.num_open() == 0
