"""Aborts that the server decides: HTTP status before the headers, an error event after them."""

from __future__ import annotations

import pytest

from engine.core.codes import CLIENT_REASONS, HTTP_STATUS, AbortReason
from tests.engine.server.harness import WorkerProcess, script

SERVER_REASONS = sorted(set(AbortReason) - CLIENT_REASONS)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", SERVER_REASONS)
def test_before_the_first_token(worker: WorkerProcess, reason: AbortReason, stream: bool) -> None:
    rid = f"{reason}-{stream}"
    answer = worker.post(
        "/generate", {"rid": rid, "text": script(tokens=0, abort=reason), "stream": stream}
    )

    assert answer.status == HTTP_STATUS[reason]
    assert answer.json["error"] == {
        "message": f"scripted {reason} (reason {reason}, stage mid_chunk, rid {rid})",
        "type": "abort",
        "code": HTTP_STATUS[reason],
        "reason": reason,
        "stage": "mid_chunk",
        "origin": "server",
        "rid": rid,
    }
    assert ("retry-after" in answer.headers) == (answer.status == 503)


def test_after_the_headers_it_is_an_error_event(decode: WorkerProcess) -> None:
    body = {"rid": "cut", "bootstrap_room": 9, "bootstrap_host": "h", "stream": True}
    connection = decode.post_later("/generate", body | {"text": script(tokens=2, hold=True)})
    decode.wait_open("cut")
    decode.post("/generate", {**body, "rid": "breaker", "text": script(end_rid="cut")})

    answer = connection.answer()

    assert answer.status == 200
    assert answer.events[-1]["error"]["reason"] == "peer_dead"
    assert answer.events[-1]["error"]["code"] == 503


def test_a_client_abort_told_by_the_peer_is_a_normal_answer(decode: WorkerProcess) -> None:
    body = {"text": script(tokens=1, abort="client_abort"), "bootstrap_room": 4}

    answer = decode.post("/generate", body | {"bootstrap_host": "h"})

    assert answer.status == 200
    assert answer.json["meta_info"]["finish_reason"]["type"] == "abort"


def test_malformed_frames_are_counted_and_dropped(worker: WorkerProcess) -> None:
    answer = worker.post("/generate", {"text": script(garbage=True)})

    assert answer.status == 200
    counts = [
        line
        for line in worker.get("/metrics").body.decode().splitlines()
        if line.startswith("severance_malformed_frames_total{")
    ]
    assert counts[0].endswith(" 2.0")


def test_metrics_count_aborts_by_their_codes(worker: WorkerProcess) -> None:
    worker.post("/generate", {"text": script(tokens=0, abort="transfer_failed")})

    text = worker.get("/metrics").body.decode()

    assert (
        'severance_aborts_total{engine_type="unified",model_name="tiny",origin="server",'
        'reason="transfer_failed",stage="mid_chunk",via="peer",worker="u7"}'
    ) in text
    assert 'error_type="transfer_failed"' in text
    assert "severance_abort_release_seconds_count" in text
    assert 'severance_wasted_tokens_total{engine_type="unified",kind="prefill"' in text
    assert "sglang:num_running_reqs{" in text
    assert "severance_rooms_open{" in text
