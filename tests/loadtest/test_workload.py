"""Workload traces: small ones written here, and the public excerpts where they are present."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadtest.cli import config_of
from loadtest.errors import TraceFileError
from loadtest.slots import slots_of
from loadtest.workload import TraceFormat, WorkloadFile, WorkloadRow, read_workload

SAMPLES = {
    TraceFormat.MOONCAKE: (
        '{"timestamp": 1000, "input_length": 70, "output_length": 5, "hash_ids": [1]}\n'
        '{"timestamp": 2500, "input_length": 900, "output_length": 7, "extra": 1}\n'
    ),
    TraceFormat.AZURE: (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,70,5\n"
        "2023-11-16 18:17:05.4799600,900,7\n"
    ),
    TraceFormat.BURST_GPT: (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,70,5,75,API\n6,ChatGPT,50,0,50,API\n6.5,GPT-4,900,7,907,API\n"
    ),
}
ROWS = [WorkloadRow(due_s=0.0, isl=70, osl=5), WorkloadRow(due_s=1.5, isl=900, osl=7)]


@pytest.mark.parametrize("form", list(TraceFormat))
def test_formats(form: TraceFormat, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(SAMPLES[form])
    rows = read_workload(WorkloadFile(path=path, format=form))
    assert [(r.isl, r.osl) for r in rows] == [(r.isl, r.osl) for r in ROWS]
    assert [r.due_s for r in rows] == pytest.approx([0.0, 1.5])


@pytest.mark.parametrize("form", list(TraceFormat))
def test_a_bad_line_is_named(form: TraceFormat, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(SAMPLES[form] + "what,is,this,1,2,3\n")
    num_lines = SAMPLES[form].count("\n") + 1
    with pytest.raises(TraceFileError, match=f"line {num_lines}"):
        read_workload(WorkloadFile(path=path, format=form))


def _data() -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("SEVERANCE_TRACE_DATA", beside))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("mooncake_conversation_1500.jsonl", TraceFormat.MOONCAKE),
        ("azure_llm_2023_code_1500.csv", TraceFormat.AZURE),
    ],
)
def test_public_traces(name: str, form: TraceFormat) -> None:
    path = _data() / name
    if not path.is_file():
        pytest.skip(f"{name} is not here; set SEVERANCE_TRACE_DATA to a folder with it")
    rows = read_workload(WorkloadFile(path=path, format=form))
    assert 1400 < len(rows) <= 1500
    assert rows[0].due_s == 0
    assert [row.due_s for row in rows] == sorted(row.due_s for row in rows)
    assert all(row.isl > 0 and row.osl > 0 for row in rows)


def test_slots_follow_the_trace_within_limits(tmp_path: Path) -> None:
    import argparse

    from loadtest.cli import add_commands

    path = tmp_path / "trace.jsonl"
    path.write_text(SAMPLES[TraceFormat.MOONCAKE])
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    options = ["load", "--url", "http://h:1", "--out", str(tmp_path), "--isl-min", "1"]
    options += ["--isl-max", "512", "--input-file", str(path), "--abort-share", "1"]
    slots = list(slots_of(config_of(parser.parse_args(options))))
    assert [(slot.due_s, slot.isl, slot.max_new_tokens) for slot in slots] == [
        (0.0, 70, 5),
        (1.5, 512, 7),
    ]
    assert all(slot.plan for slot in slots)
