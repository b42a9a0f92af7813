"""Bytes to events, events to facts, facts to one outcome."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.frames import ServerAbort, find_server_abort, parse_answer, parse_frame
from loadtest.history import AbortKind, Outcome
from loadtest.outcome import Ending, judge
from loadtest.sse import EventParser
from loadtest.transcript import Transcript

STREAM = (
    b'data: {"a": 1}\n\n: ping\n\ndata:\n\nid: 7\n'
    b"data: two\r\ndata: lines\r\n\r\ndata:[DONE]\n\ndata: torn"
)
EVENTS = [b'{"a": 1}', b"two\nlines", b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_do_not_depend_on_how_bytes_arrive(cuts: list[int]) -> None:
    parser = EventParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in itertools.pairwise(edges)]
    assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_an_event_is_handed_out_with_its_last_byte() -> None:
    parser = EventParser()
    assert parser.feed(b"data: one\n") == []
    assert parser.feed(b"\n") == [b"one"]
    assert parser.feed(b"data: two\n\n") == [b"two"]
    assert parser.feed(b"data:\n\n") == []


def frame(count: int, finish: object = None) -> bytes:
    meta = {
        "finish_reason": finish,
        "completion_tokens": count,
        "output_top_logprobs": [[[-0.5, 7, None], [-0.75, 8, None]]] * count,
    }
    return json.dumps({"text": "x" * count, "output_ids": [7] * count, "meta_info": meta}).encode()


def test_frame_and_answer() -> None:
    data = frame(3, {"type": "length", "length": 3})
    seen, answer = parse_frame(data), parse_answer(data)
    assert (seen.num_tokens, seen.finish.type, seen.claimed_tokens) == (3, "length", 3)
    assert (answer.text, answer.output_ids, answer.margins) == ("xxx", (7, 7, 7), (0.25,) * 3)
    assert parse_frame(b"not json") is None
    assert parse_frame(b'{"output_ids": "no list"}') is None


def test_margins_where_the_server_tells_less() -> None:
    tops = [None, [[-0.5, 7, None]], [[-1.0, 7, "a"], [-3.0, 8, "b"]]]
    data = json.dumps({"output_ids": [1, 2, 3], "meta_info": {"output_top_logprobs": tops}})
    assert parse_answer(data.encode()).margins == (2.0,)
    assert parse_answer(b'{"output_ids": [1]}').margins == ()


ERROR = {
    "message": 'peer "d0" is dead',
    "type": "abort",
    "code": 503,
    "reason": "peer_dead",
    "stage": "transfer",
    "origin": "server",
    "rid": "0" * 32,
}


@pytest.mark.parametrize("indent", [None, 2])
def test_server_abort_is_found_however_the_router_wraps_it(indent: int | None) -> None:
    body = json.dumps({"error": ERROR}, indent=indent)
    wrapped = f'data: {{\'error\': {{"message":{body},"status":503}}}}'
    expected = ServerAbort(
        message='peer "d0" is dead', reason="peer_dead", stage="transfer", origin="server"
    )
    assert find_server_abort(body.encode()) == expected
    # The router keeps the worker's content-length, so that many bytes of the longer text arrive.
    assert find_server_abort(wrapped.encode()[: len(body)]) == expected


@pytest.mark.parametrize("body", [b"", b"Bad gateway", b'{"error": {"type": "invalid_request"}}'])
def test_foreign_errors_are_no_server_abort(body: bytes) -> None:
    assert find_server_abort(body) is None


def transcript(*events: bytes, status: int = 200) -> Transcript:
    made = Transcript()
    made.head(status, 1)
    for number, event in enumerate(events):
        made.event(event, 10 + number)
    return made


LENGTH, ABORT, DONE = {"type": "length"}, {"type": "abort", "message": "asked"}, b"[DONE]"
SSE_ERROR = json.dumps({"error": ERROR}).encode()
OURS = json.dumps({"error": {**ERROR, "reason": "client_abort", "origin": "client"}}).encode()
RID = Ending(acted=AbortKind.RID)
BROKEN = Ending(broken="reset")


@pytest.mark.parametrize(
    ("events", "ending", "outcome"),
    [
        ((frame(1), frame(2, LENGTH), DONE), Ending(), Outcome.COMPLETED),
        ((frame(1), frame(2, LENGTH), DONE), BROKEN, Outcome.COMPLETED),
        ((frame(1), frame(2, LENGTH), DONE), RID, Outcome.COMPLETED),
        ((frame(1), frame(1, ABORT), DONE), RID, Outcome.ABORTED_RID),
        ((frame(1), frame(1, ABORT), DONE), Ending(), Outcome.ABORTED_SERVER),
        ((frame(1), SSE_ERROR, DONE), Ending(), Outcome.ABORTED_SERVER),
        ((frame(1), SSE_ERROR), BROKEN, Outcome.ABORTED_SERVER),
        ((SSE_ERROR, DONE), RID, Outcome.ABORTED_SERVER),
        ((OURS, DONE), RID, Outcome.ABORTED_RID),
        ((b'{"error": "router"}', DONE), Ending(), Outcome.HTTP_ERROR),
        ((b"garbage", DONE), Ending(), Outcome.HTTP_ERROR),
        ((frame(1), frame(2, LENGTH)), Ending(), Outcome.TRUNCATED),
        ((frame(1), DONE), Ending(), Outcome.TRUNCATED),
        ((), Ending(), Outcome.TRUNCATED),
        ((frame(1),), BROKEN, Outcome.CONN_ERROR),
        ((frame(1), frame(2, LENGTH)), BROKEN, Outcome.CONN_ERROR),
        ((frame(1),), Ending(acted=AbortKind.DISCONNECT), Outcome.ABORTED_DISCONNECT),
        ((), Ending(acted=AbortKind.DEADLINE), Outcome.ABORTED_DEADLINE),
        ((), Ending(broken="stopped", not_sent=True), Outcome.NOT_SENT),
    ],
)
def test_judge(events: tuple[bytes, ...], ending: Ending, outcome: Outcome) -> None:
    assert judge(transcript(*events), ending).outcome is outcome


def test_a_broken_error_body_is_an_http_error() -> None:
    assert judge(transcript(status=502), BROKEN).outcome is Outcome.HTTP_ERROR


def test_first_answer_wins_and_late_tokens_count() -> None:
    made = transcript(frame(1), frame(2, LENGTH), frame(3), frame(3, ABORT), DONE)
    assert made.finish.type == "length"
    assert (made.claimed_tokens, made.num_tokens, made.num_answers) == (2, 3, 2)
    assert made.over_ns == 11
    assert made.last_frame == frame(2, LENGTH)
    assert judge(made, Ending()).outcome is Outcome.COMPLETED


def test_a_prefill_error_quoted_and_cut_by_the_router_is_still_an_abort() -> None:
    """Seen: the router quotes it in its own message and cuts it within the reason."""
    body = (
        rb'{"error":{"type":"Service Unavailable","code":"prefill_unavailable","message":"Prefill server '
        rb"error (503 Service Unavailable): {\"error\":{\"message\":\"Prefill transfer failed for rid=a: no "
        rb"beat from d0 (reason peer_dead, stage transfer, rid a)\",\"type\":\"abort\",\"code\":503,"
        rb"\"reason\":\"peer_de"
    )
    abort = find_server_abort(body)
    assert abort is not None
    assert (abort.reason, abort.stage) == ("peer_dead", "transfer")
    assert abort.message is not None
    assert abort.message.startswith("Prefill transfer failed")
