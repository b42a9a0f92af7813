"""Public workload traces as a source of due times and lengths (their text is not in them)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from loadtest.errors import TraceFileError


class TraceFormat(StrEnum):
    """Names as in aiperf where it has them."""

    MOONCAKE = "mooncake-trace"
    AZURE = "azure-llm"
    BURST_GPT = "burst-gpt-trace"


class WorkloadFile(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    format: TraceFormat


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True):
    """``due_s``: from the first row. Lengths in tokens."""

    due_s: float
    isl: int
    osl: int


class _MooncakeRow(msgspec.Struct, frozen=True):
    timestamp: float
    input_length: int
    output_length: int


_RawRow = tuple[float, int, int]
"""Seconds on the trace's own clock, input tokens, output tokens."""


def read_workload(file: WorkloadFile) -> list[WorkloadRow]:
    """Rows in order of their due times; rows without output (BurstGPT's failures) are left out.

    Raises `TraceFileError`.
    """
    readers: dict[TraceFormat, Callable[[Path], Iterator[_RawRow]]] = {
        TraceFormat.MOONCAKE: _read_mooncake,
        TraceFormat.AZURE: _read_azure,
        TraceFormat.BURST_GPT: _read_burst_gpt,
    }
    try:
        rows = sorted(row for row in readers[file.format](file.path) if row[1] > 0 and row[2] > 0)
    except OSError as error:
        raise TraceFileError(file.path, 0, f"cannot be read ({error.strerror})") from error
    if not rows:
        raise TraceFileError(file.path, 0, "holds no request")
    start_s = rows[0][0]
    return [WorkloadRow(due_s=at_s - start_s, isl=isl, osl=osl) for at_s, isl, osl in rows]


def _read_mooncake(path: Path) -> Iterator[_RawRow]:
    decoder = msgspec.json.Decoder(_MooncakeRow)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise TraceFileError(path, number, str(error)) from error
            yield row.timestamp / 1e3, row.input_length, row.output_length


def _read_azure(path: Path) -> Iterator[_RawRow]:
    def seconds(text: str) -> float:
        return datetime.fromisoformat(text.strip()[:26]).timestamp()

    return _read_csv(path, ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), seconds)


def _read_burst_gpt(path: Path) -> Iterator[_RawRow]:
    return _read_csv(path, ("Timestamp", "Request tokens", "Response tokens"), float)


def _read_csv(
    path: Path, columns: tuple[str, str, str], seconds: Callable[[str], float]
) -> Iterator[_RawRow]:
    at, isl, osl = columns
    with path.open(newline="", encoding="utf-8") as lines:
        for number, row in enumerate(csv.DictReader(lines), start=2):
            try:
                yield seconds(row[at]), int(row[isl]), int(row[osl])
            except (KeyError, TypeError, ValueError) as error:
                raise TraceFileError(
                    path, number, f"needs {', '.join(columns)}: {error!r}"
                ) from error
