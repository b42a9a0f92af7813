"""Aborts on purpose: they happen when they should, servers notice, and the history tells them apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.history import AbortKind, Outcome

if TYPE_CHECKING:
    from tests.loadtest.conftest import LoadResult, StubProcess

NS_PER_MS = 1e6


def mix(path: Path, **entry: object) -> tuple[str, ...]:
    path.write_text(json.dumps([entry]))
    return ("--abort-mix", str(path), "--abort-share", "1")


@pytest.mark.parametrize("kind", ["disconnect", "deadline"])
def test_closing_is_noticed_at_once(
    kind: str, stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--ttft-ms", "60", "--itl-ms", "30")
    result = load(
        *("--url", server.url, "--request-rate", "10", "--num-prompts", "10"),
        *mix(tmp_path / "mix.json", kind=kind, after_ms=[20, 300]),
    )
    assert result.code == 0, result.stderr
    noticed = {event["rid"]: event["at_ns"] for event in server.events("disconnect")}
    for sent, end in result.in_order():
        assert end.outcome == f"aborted_{kind}"
        assert end.abort.kind == kind
        due_ns = sent.scheduled_ns + sent.abort_plan.after_ms * NS_PER_MS
        assert end.abort.due_ns == pytest.approx(due_ns, abs=1000)
        assert 0 <= end.abort.fired_ns - due_ns < 100 * NS_PER_MS
        assert end.end_ns >= end.abort.fired_ns
    delays_ms = sorted(
        (noticed[sent.rid] - end.abort.fired_ns) / NS_PER_MS for sent, end in result.in_order()
    )
    assert delays_ms[0] >= 0
    assert delays_ms[5] < 10, delays_ms


def test_disconnect_after_tokens_keeps_what_was_received(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--itl-ms", "20")
    result = load(
        *("--url", server.url, "--request-rate", "10", "--num-prompts", "4"),
        *mix(tmp_path / "mix.json", kind="disconnect", after_tokens=[3, 3]),
    )
    for _, end in result.in_order():
        assert end.outcome is Outcome.ABORTED_DISCONNECT
        assert end.osl == len(end.output_ids) == len(end.margins) == 3
        assert end.completion_tokens is None
        assert end.num_answers == 0


def test_rid_abort_reaches_every_worker_and_ends_the_stream(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    decode, prefill = stub("--itl-ms", "30"), stub()
    result = load(
        *("--url", decode.url, "--abort-url", prefill.url, "--abort-url", decode.url),
        *("--request-rate", "10", "--num-prompts", "6"),
        *mix(tmp_path / "mix.json", kind="rid", after_ms=[50, 200]),
    )
    sent, ends = result.records()
    for end in ends.values():
        assert end.outcome is Outcome.ABORTED_RID
        assert end.finish_reason == "abort"
        assert end.abort.matched == 1  # decode has it, prefill (of this stub pair) has not
        assert end.osl == end.completion_tokens
    for server in (decode, prefill):
        assert {event["rid"] for event in server.events("abort")} == sent.keys()
    assert not decode.events("disconnect")


def test_rid_abort_of_one_half_goes_to_that_role_alone(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    decode, prefill = stub("--itl-ms", "30"), stub()
    result = load(
        *("--url", decode.url, "--abort-url", f"prefill={prefill.url}"),
        *("--abort-url", f"decode={decode.url}", "--request-rate", "10", "--num-prompts", "4"),
        *mix(tmp_path / "mix.json", kind="rid", at="decode", after_ms=[50, 200]),
    )
    sent, ends = result.records()
    assert {end.outcome for end in ends.values()} == {Outcome.ABORTED_RID}
    assert {event["rid"] for event in decode.events("abort")} == sent.keys()
    assert not prefill.events("abort")


def test_rid_abort_is_repeated_while_it_is_ignored(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--mode", "ignore_abort", "--itl-ms", "50")
    result = load(
        *("--url", server.url, "--request-rate", "20", "--num-prompts", "1"),
        *("--osl-min", "12", "--osl-max", "12"),
        *mix(tmp_path / "mix.json", kind="rid", after_tokens=[1, 1]),
    )
    [(_, end)] = result.in_order()
    assert end.outcome is Outcome.COMPLETED
    assert end.abort.kind is AbortKind.RID
    assert end.osl == 12
    assert 4 <= len(server.events("abort")) <= 7  # 550 ms of stream, one each 100 ms


def test_rid_abort_before_the_first_frame_may_be_answered_without_a_stream(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--mode", "json_abort")
    result = load(
        *("--url", server.url, "--request-rate", "20", "--num-prompts", "1"),
        *mix(tmp_path / "mix.json", kind="rid", after_ms=[100, 100]),
    )
    [(_, end)] = result.in_order()
    assert end.outcome is Outcome.ABORTED_RID
    assert end.num_answers == 1
    assert end.osl == 0


def test_no_abort_after_the_answer(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--mode", "normal", "--itl-ms", "0")
    entries = [
        {"kind": kind, "after_ms": [2000, 2000]} for kind in ("disconnect", "rid", "deadline")
    ]
    (tmp_path / "mix.json").write_text(json.dumps(entries))
    result = load(
        *("--url", server.url, "--request-rate", "40", "--num-prompts", "12"),
        *("--abort-mix", str(tmp_path / "mix.json"), "--abort-share", "1"),
    )
    assert {end.outcome for _, end in result.in_order()} == {Outcome.COMPLETED}
    assert all(end.abort is None for _, end in result.in_order())
    assert not server.events("abort")


def test_deadline_counts_from_due_not_from_sent(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    """More requests are due in a burst than can leave at once; those that leave late give up in time."""
    server = stub("--mode", "hang")
    result = load(
        *("--url", server.url, "--arrival-pattern", "constant", "--request-rate", "5000"),
        *("--num-prompts", "300", "--isl-min", "3000", "--isl-max", "3000"),
        *mix(tmp_path / "mix.json", kind="deadline", after_ms=[1000, 1000]),
    )
    ordered = result.in_order()
    lags_ms = [(sent.sent_ns - sent.scheduled_ns) / NS_PER_MS for sent, _ in ordered]
    assert max(lags_ms) > 20, "the burst did not make the driver late, so this proves nothing"
    for sent, end in ordered:
        assert end.outcome is Outcome.ABORTED_DEADLINE
        assert end.abort.due_ns == pytest.approx(sent.scheduled_ns + 1e9, abs=1000)
    waited_ms = sorted(
        (end.abort.fired_ns - sent.scheduled_ns) / NS_PER_MS for sent, end in ordered
    )
    assert waited_ms[0] >= 1000
    assert waited_ms[150] < 1200
