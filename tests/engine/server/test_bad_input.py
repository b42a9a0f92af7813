"""Bad input: a 400 that names the field, and nothing left behind."""

from __future__ import annotations

import http.client
import json

import pytest

from tests.engine.server.harness import Json, WorkerProcess, script

GENERATE: list[tuple[str, Json]] = [
    ("text", {}),
    ("text", {"text": 5}),
    ("text", {"text": ["a", "b"]}),
    ("text", {"text": ""}),
    ("input_ids", {"input_ids": []}),
    ("input_ids", {"text": "a", "input_ids": [1]}),
    ("input_ids[1]", {"input_ids": [1, "2"]}),
    ("input_ids[0]", {"input_ids": [1.5]}),
    ("input_ids[2]", {"input_ids": [1, 2, 259]}),
    ("input_ids[0]", {"input_ids": [-1]}),
    ("input_ids[0]", {"input_ids": [10**30]}),
    ("rid", {"text": "a", "rid": 7}),
    ("rid", {"text": "a", "rid": ""}),
    ("rid", {"text": "a", "rid": "x" * 129}),
    ("rid", {"text": "a", "rid": "two\nlines"}),
    ("stream", {"text": "a", "stream": "yes"}),
    ("return_logprob", {"text": "a", "return_logprob": 1}),
    ("top_logprobs_num", {"text": "a", "return_logprob": True, "top_logprobs_num": -1}),
    ("top_logprobs_num", {"text": "a", "top_logprobs_num": 2}),
    ("sampling_params", {"text": "a", "sampling_params": [1]}),
    ("sampling_params.max_new_tokens", {"text": "a", "sampling_params": {"max_new_tokens": -1}}),
    ("sampling_params.max_new_tokens", {"text": "a", "sampling_params": {"max_new_tokens": "9"}}),
    ("sampling_params.max_new_tokens", {"text": "a", "sampling_params": {"max_new_tokens": 5000}}),
    ("sampling_params.max_new_tokens", {"text": "a", "sampling_params": {"max_new_tokens": 9**99}}),
    ("sampling_params.temperature", {"text": "a", "sampling_params": {"temperature": -0.1}}),
    ("sampling_params.temperature", {"text": "a", "sampling_params": {"temperature": "hot"}}),
    ("sampling_params.ignore_eos", {"text": "a", "sampling_params": {"ignore_eos": "no"}}),
    ("sampling_params.seed", {"text": "a", "sampling_params": {"seed": -1}}),
    ("sampling_params.max_tokens", {"text": "a", "sampling_params": {"max_tokens": 4}}),
    ("sampling_params.n", {"text": "a", "sampling_params": {"n": 2}}),
    ("sampling_params.top_p", {"text": "a", "sampling_params": {"top_p": 0.5, "temperature": 1}}),
]


@pytest.mark.parametrize(("field", "body"), GENERATE)
def test_generate_names_the_field(worker: WorkerProcess, field: str, body: Json) -> None:
    answer = worker.post("/generate", body)

    error = answer.json["error"]
    assert answer.status == 400
    assert error["code"] == 400
    assert error["type"] == "invalid_request_error"
    assert error["field"] == field
    assert field in error["message"]
    assert worker.num_open() == 0


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'{"text": "\xff"}', b'{"text": NaN}', b"[" * 100_000],
    ids=["empty", "cut", "list", "null", "utf8", "nan", "deep"],
)
def test_broken_json_is_a_400(worker: WorkerProcess, raw: bytes) -> None:
    answer = worker.request("POST", "/generate", raw)

    assert answer.status == 400
    assert answer.json["error"]["message"]


def test_a_lone_surrogate_is_a_400(worker: WorkerProcess) -> None:
    assert worker.request("POST", "/generate", b'{"text": "a\\ud800b"}').status == 400


def test_too_long_a_prompt_names_the_limit(worker: WorkerProcess) -> None:
    error = worker.post("/generate", {"text": "x" * 1025}).json["error"]

    assert error["field"] == "text"
    assert error["reason"] == "input_too_long"
    assert error["limit"] == 1024
    assert "1025" in error["message"]


def test_too_large_a_body_is_a_413_without_reading_it(worker: WorkerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=5)
    connection.putrequest("POST", "/generate")
    connection.putheader("content-length", str(10**9))
    connection.endheaders()

    response = connection.getresponse()

    assert response.status == 413
    assert json.loads(response.read())["error"]["code"] == 413
    connection.close()


def test_too_large_a_chunked_body_is_a_413(worker: WorkerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=5)
    pieces = (b"x" * 65_536 for _ in range(129))
    try:
        connection.request("POST", "/generate", pieces, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # the answer may overtake the rest of the body
    finally:
        connection.close()
    assert worker.num_open() == 0


def test_an_open_rid_cannot_be_used_again(worker: WorkerProcess) -> None:
    first = worker.post_later("/generate", {"rid": "taken", "text": script(hold=True)})
    worker.wait_open("taken")

    second = worker.post("/generate", {"rid": "taken", "text": "a"})

    assert second.status == 400
    assert second.json["error"]["field"] == "rid"
    worker.post("/abort_request", {"rid": "taken"})
    assert first.answer().status == 200
    assert worker.post("/generate", {"rid": "taken", "text": "a"}).status == 200


PAIR: list[tuple[str, Json]] = [
    ("bootstrap_room", {"text": "a", "bootstrap_host": "h"}),
    ("bootstrap_room", {"text": "a", "bootstrap_host": "h", "bootstrap_room": "5"}),
    ("bootstrap_room", {"text": "a", "bootstrap_host": "h", "bootstrap_room": -5}),
    ("bootstrap_room", {"text": "a", "bootstrap_host": "h", "bootstrap_room": [5]}),
    ("bootstrap_port", {"text": "a", "bootstrap_room": 5, "bootstrap_port": 70_000}),
    ("bootstrap_host", {"text": "a", "bootstrap_room": 5}),
]


@pytest.mark.parametrize(("field", "body"), PAIR)
def test_a_pair_worker_names_the_field(decode: WorkerProcess, field: str, body: Json) -> None:
    answer = decode.post("/generate", body)

    assert answer.status == 400
    assert answer.json["error"]["field"] == field


def test_a_missing_room_is_told_in_sglangs_words(prefill: WorkerProcess) -> None:
    error = prefill.post("/generate", {"text": "a"}).json["error"]

    assert "Disaggregated request received without bootstrap room id." in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "raw", "status"),
    [
        ("POST", "/abort_request", b"{}", 400),
        ("POST", "/abort_request", b'{"rid": ""}', 400),
        ("POST", "/abort_request", b'{"rid": 5}', 400),
        ("POST", "/abort_request", b'{"rid": "' + b"x" * 129 + b'"}', 400),
        ("POST", "/abort_request", b'{"rid": "", "prefix": true}', 400),
        ("POST", "/abort_request", b"{", 400),
        ("GET", "/generate", b"", 405),
        ("POST", "/health", b"", 405),
        ("GET", "/nowhere", b"", 404),
        ("GET", "/requests/unknown", b"", 404),
    ],
)
def test_other_bad_calls(
    worker: WorkerProcess, method: str, path: str, raw: bytes, status: int
) -> None:
    answer = worker.request(method, path, raw)

    assert answer.status == status
    assert answer.json["error"]["code"] == status


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"text": "a", "sampling_params": {"n": 2}}, "transfer_failed"),
        ({"text": 5}, "transfer_failed"),
        ({"text": "a", "rid": 7}, "transfer_failed"),
        ({"text": "a", "sampling_params": {"max_new_tokens": 10**6}}, "input_too_long"),
    ],
)
def test_a_half_that_refuses_says_so_to_the_other(
    prefill: WorkerProcess, body: Json, reason: str
) -> None:
    room = abs(hash(str(body))) % 2**40
    sent = {**body, "bootstrap_room": room, "bootstrap_host": "127.0.0.1", "bootstrap_port": 5}
    assert prefill.post("/generate", sent).status == 400
    refusals = prefill.get("/ledger").json["seen"]["refusals"]
    (told,) = [each for each in refusals if each["bootstrap_room"] == room]
    assert told["reason"] == reason
    assert told["bootstrap_port"] == 5
    assert "prefill refused the request" in told["message"]


@pytest.mark.parametrize("room", [None, -1, "x"])
def test_a_refused_body_without_a_room_has_nobody_to_tell(
    prefill: WorkerProcess, room: object
) -> None:
    before = len(prefill.get("/ledger").json["seen"]["refusals"])
    body: Json = {"text": 5, "bootstrap_room": room}
    assert prefill.post("/generate", body).status == 400
    assert len(prefill.get("/ledger").json["seen"]["refusals"]) == before
