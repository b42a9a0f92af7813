"""`/generate` when all goes well, in every role."""

from __future__ import annotations

from tests.engine.server.harness import Json, WorkerProcess, script


def test_answers_with_text_ids_and_meta_info(worker: WorkerProcess) -> None:
    answer = worker.post("/generate", {"rid": "plain", "text": script(tokens=4)})

    assert answer.status == 200
    assert answer.json["text"] == "abcd"
    assert answer.json["output_ids"] == [97, 98, 99, 100]
    meta = answer.json["meta_info"]
    assert meta["id"] == "plain"
    assert meta["finish_reason"] == {"type": "length", "length": 4}
    assert meta["completion_tokens"] == 4
    assert meta["prompt_tokens"] == len(worker.seen("generates", "plain")[0]["input_ids"])
    assert meta["cached_tokens"] == 4
    assert 0 < meta["e2e_latency"] < 5
    assert "output_token_logprobs" not in meta


def test_streams_cumulative_events_and_done(worker: WorkerProcess) -> None:
    answer = worker.post("/generate", {"text": script(tokens=5), "stream": True})

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    texts = [event["text"] for event in answer.events]
    assert texts[-1] == "abcde"
    assert all("abcde".startswith(text) for text in texts)
    reasons = [event["meta_info"]["finish_reason"] for event in answer.events]
    assert reasons[-1] == {"type": "length", "length": 5}
    assert set(map(type, reasons[:-1])) <= {type(None)}


def test_logprobs_carry_the_margin(worker: WorkerProcess) -> None:
    wanted = {"text": script(tokens=2), "return_logprob": True, "top_logprobs_num": 2}

    meta = worker.post("/generate", wanted).json["meta_info"]

    assert meta["output_token_logprobs"] == [[-0.25, 97, None], [-0.25, 98, None]]
    best, second = meta["output_top_logprobs"][0]
    assert best[0] - second[0] == 0.5


def test_sampling_parameters_reach_the_scheduler(worker: WorkerProcess) -> None:
    sampling = {"max_new_tokens": 9, "temperature": 0.5, "ignore_eos": True, "sampling_seed": 77}
    worker.post("/generate", {"rid": "sampled", "input_ids": [1, 2], "sampling_params": sampling})

    seen = worker.seen("generates", "sampled")[0]

    assert seen["sampling_params"] == {
        "max_new_tokens": 9,
        "temperature": 0.5,
        "ignore_eos": True,
        "seed": 77,
    }
    assert seen["input_ids"] == [1, 2]


def test_null_and_neutral_fields_are_as_good_as_absent(worker: WorkerProcess) -> None:
    body: Json = {
        "text": "x",
        "input_ids": None,
        "rid": None,
        "stream": None,
        "lora_path": "ignored",
        "sampling_params": {"top_p": 1.0, "top_k": -1, "n": 1, "stop": None, "stop_token_ids": []},
    }
    assert worker.post("/generate", body).status == 200


def test_prefill_and_decode_take_rid_and_room(
    prefill: WorkerProcess, decode: WorkerProcess
) -> None:
    body = {"text": "x", "bootstrap_host": "h", "bootstrap_port": 8998, "bootstrap_room": 2**63 - 1}

    for half in (prefill, decode):
        answer = half.post("/generate", body)
        assert answer.status == 200
        assert answer.json["meta_info"]["id"] == f"room-{2**63 - 1}"
        seen = half.seen("generates", f"room-{2**63 - 1}")[0]
        assert (seen["bootstrap_host"], seen["bootstrap_port"]) == ("h", 8998)


def test_one_rid_may_be_open_in_two_rooms(decode: WorkerProcess) -> None:
    body: Json = {"rid": "twice", "text": script(hold=True), "bootstrap_host": "h"}
    first = decode.post_later("/generate", body | {"bootstrap_room": 1})
    second = decode.post_later("/generate", body | {"bootstrap_room": 2})
    while len(decode.seen("generates", "twice")) < 2:
        pass

    repeated = decode.post("/generate", body | {"bootstrap_room": 2})
    assert repeated.status == 400
    assert repeated.json["error"]["field"] == "rid"
    assert decode.post("/abort_request", {"rid": "twice"}).json["matched"] == 2
    assert {first.answer().status, second.answer().status} == {200}
    assert sorted(abort["bootstrap_room"] for abort in decode.seen("aborts", "twice")) == [1, 2]


def test_a_pair_worker_probes_itself_with_a_fake_peer(decode: WorkerProcess) -> None:
    assert decode.get("/health_generate").status == 200
    probes = [
        seen
        for seen in decode.get("/ledger").json["seen"]["generates"]
        if seen["rid"].startswith("HEALTH_CHECK_")
    ]
    assert probes[-1]["bootstrap_host"] == "2.2.2.2"
    assert probes[-1]["sampling_params"]["max_new_tokens"] == 1
