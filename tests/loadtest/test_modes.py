"""Capacity and replay."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.cli import add_commands, config_of
from loadtest.errors import UsageError
from loadtest.slots import slots_of

if TYPE_CHECKING:
    from tests.loadtest.conftest import LoadResult, StubProcess


def test_capacity(stub: Callable[..., StubProcess], load: Callable[..., LoadResult]) -> None:
    server = stub("--ttft-ms", "50", "--itl-ms", "10")
    result = load(
        *("--mode", "capacity", "--url", server.url, "--duration", "2", "--concurrency", "4"),
        *("--osl-min", "16", "--osl-max", "16"),
    )
    assert result.code == 0, result.stderr
    capacity = json.loads((result.out / "capacity.json").read_bytes())
    # 4 streams of 50 + 15 * 10 ms each: 20 requests a second, if nothing else cost time.
    assert 11 < capacity["req_per_s"] <= 20
    assert capacity["tokens_per_s"] == pytest.approx(16 * capacity["req_per_s"])
    assert capacity["duration_s"] == 2
    sent, ends = result.records("warmup.jsonl")
    assert capacity["requests"] == len(sent) == len(ends)
    assert {record.phase for record in sent.values()} == {"warmup"}
    calls = sorted((call["at_ns"], 1) for call in server.events("generate"))
    assert len(calls) == len(sent)


def test_capacity_of_a_server_that_refuses_is_zero(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult]
) -> None:
    server = stub("--mode", "http_foreign")
    result = load(
        *("--mode", "capacity", "--url", server.url, "--duration", "1", "--concurrency", "2")
    )
    assert result.code == 0
    assert json.loads((result.out / "capacity.json").read_bytes())["req_per_s"] == 0
    assert len(server.events("generate")) < 30, "refusals must not be hammered"


def test_replay_repeats_prompts_and_rids(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult], tmp_path: Path
) -> None:
    server = stub("--itl-ms", "1")
    first = load(
        *("--url", server.url, "--request-rate", "50", "--num-prompts", "6", "--seed", "9"),
        *("--abort-share", "1", "--run-id", "r1"),
    )
    control = stub("--itl-ms", "1")
    result = load(
        *("--mode", "replay", "--url", control.url, "--run-id", "r1"),
        *("--requests", str(first.out / "history.jsonl")),
    )
    assert result.code == 0, result.stderr
    sent, ends = result.records("control.jsonl")
    wanted, _ = first.records()
    assert sent.keys() == ends.keys() == wanted.keys()
    assert {end.outcome for end in ends.values()} == {"completed"}
    assert {record.phase for record in sent.values()} == {"control"}
    assert all(record.abort_plan is None for record in sent.values())
    before = {call["rid"]: call["body"] for call in server.events("generate")}
    after = {call["rid"]: call["body"] for call in control.events("generate")}
    assert before == after
    for rid, record in sent.items():
        assert record.trace_id != wanted[rid].trace_id
        assert ends[rid].osl == wanted[rid].max_new_tokens


@pytest.mark.parametrize(
    ("text", "complaint"), [("", "nothing to repeat"), ("{}\n", "not a history")]
)
def test_replay_of_no_history(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(text)
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    options = ("load", "--mode", "replay", "--url", "http://127.0.0.1:1", "--out", str(tmp_path))
    config = config_of(parser.parse_args([*options, "--requests", str(path)]))
    with pytest.raises(UsageError, match=complaint) as caught:
        slots_of(config)
    assert caught.value.flag == "--requests"
