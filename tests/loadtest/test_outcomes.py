"""Every way an answer can end, on real sockets, and what the history says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from loadtest.history import Outcome

if TYPE_CHECKING:
    from tests.loadtest.conftest import LoadResult, StubProcess

MODES = {
    "normal": Outcome.COMPLETED,
    "no_done": Outcome.TRUNCATED,
    "no_finish": Outcome.TRUNCATED,
    "truncated": Outcome.TRUNCATED,
    "cut": Outcome.TRUNCATED,
    "eof_body": Outcome.TRUNCATED,
    "reset": Outcome.CONN_ERROR,
    "close_early": Outcome.CONN_ERROR,
    "http_abort": Outcome.ABORTED_SERVER,
    "http_foreign": Outcome.HTTP_ERROR,
    "sse_error": Outcome.ABORTED_SERVER,
    "two_answers": Outcome.COMPLETED,
    "late_token": Outcome.COMPLETED,
}


def test_every_outcome(stub: Callable[..., StubProcess], load: Callable[..., LoadResult]) -> None:
    server = stub("--mode", ",".join(MODES))
    result = load(
        *("--url", server.url, "--arrival-pattern", "constant", "--request-rate", "25"),
        *("--num-prompts", str(len(MODES)), "--osl-min", "8", "--osl-max", "8"),
    )
    assert result.code == 0, result.stderr
    ends = dict(zip(MODES, (end for _, end in result.in_order()), strict=True))
    for mode, end in ends.items():
        assert end is not None, mode
        assert end.outcome is MODES[mode], (mode, end)
        assert end.abort is None

    normal = ends["normal"]
    assert normal.osl == normal.completion_tokens == 8
    assert normal.status == 200
    assert normal.finish_reason == "length"
    assert normal.num_answers == 1
    assert normal.output_ids == tuple(range(65, 73))
    assert normal.margins == (1.5,) * 8
    assert normal.text_sha256 == hashlib.sha256(b"ABCDEFGH").hexdigest()
    assert normal.headers_ns < normal.first_ns < normal.last_ns <= normal.end_ns

    assert ends["two_answers"].num_answers == 2
    assert ends["late_token"].osl == 9
    assert ends["late_token"].completion_tokens == 8
    assert ends["http_abort"].status == 503
    assert ends["http_foreign"].status == 502
    assert "no worker left" in ends["http_foreign"].error_message
    assert ends["sse_error"].status == 200
    assert ends["sse_error"].osl == 4
    for mode in ("http_abort", "sse_error"):
        codes = (ends[mode].error_reason, ends[mode].error_stage, ends[mode].error_origin)
        assert codes == ("peer_dead", "transfer", "server")
    assert ends["reset"].osl >= 1
    assert ends["cut"].osl == ends["truncated"].osl == ends["eof_body"].osl == 4


def test_counts_add_up_and_request_is_as_promised(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult]
) -> None:
    server = stub("--mode", "normal,normal,http_abort,hang", "--itl-ms", "5")
    result = load(
        *("--url", server.url, "--request-rate", "20", "--num-prompts", "20", "--seed", "3"),
        *(
            "--abort-share",
            "0.4",
            "--request-timeout",
            "1.2",
            "--isl-min",
            "100",
            "--isl-max",
            "200",
        ),
    )
    assert result.code == 0, result.stderr
    sent, ends = result.records()
    summary = result.summary()
    assert len(sent) == summary["sent"] == 20
    assert sum(summary["outcomes"].values()) == len(ends)
    assert summary["hung"] == len(sent) - len(ends) > 0
    for rid in sent.keys() - ends.keys():
        assert sent[rid].abort_plan is None or sent[rid].abort_plan.kind == "rid"

    calls = {call["rid"]: call for call in server.events("generate")}
    for rid, record in sent.items():
        body = calls[rid]["body"]
        assert len(rid) == 32
        assert len(body["text"]) == record.isl
        assert body["sampling_params"] == {
            "temperature": 0,
            "max_new_tokens": record.max_new_tokens,
            "ignore_eos": True,
        }
        assert body["stream"] is body["return_logprob"] is True
        assert body["top_logprobs_num"] == 2
        assert calls[rid]["traceparent"].split("-")[1] == record.trace_id


def test_refused_connection(
    load: Callable[..., LoadResult], stub: Callable[..., StubProcess]
) -> None:
    gone = stub()
    gone.stop()
    result = load("--url", gone.url, "--request-rate", "20", "--num-prompts", "2")
    assert result.code == 0
    assert [end.outcome for _, end in result.in_order()] == [Outcome.CONN_ERROR] * 2


def test_sent_is_on_record_before_the_first_byte(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path
) -> None:
    server = stub("--watch", str(tmp_path / "out" / "history.jsonl"))
    assert load("--url", server.url, "--request-rate", "40", "--num-prompts", "20").code == 0
    calls = server.events("generate")
    assert len(calls) == 20
    assert all(call["on_record"] for call in calls)
