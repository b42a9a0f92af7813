"""A run directory, read as far as it goes: what is absent or broken becomes a `Gap`, not an error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.records import FaultRecord, LedgerSample, RunEvent, RunInfo, read_jsonl
from chaos.verdict import AbortRow, Verdict
from dashboards.errors import NoSpans, RunNotFound
from dashboards.spans import Span, read_spans
from loadtest.history import HistoryRecord, read_history

T = TypeVar("T")

SPANS_FILE = "spans.sqlite"
_KNOWN_FILES = (
    "run.json",
    "verdict.json",
    "history.jsonl",
    "faults.jsonl",
    "events.jsonl",
    "ledger.jsonl",
    SPANS_FILE,
)


class Gap(msgspec.Struct, frozen=True):
    """A file that says nothing. ``why``: missing, empty, or what is wrong with it."""

    file: str
    why: str
    loses: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run wrote. ``spans`` are sorted by start time."""

    path: Path
    info: RunInfo | None
    verdict: Verdict | None
    history: tuple[HistoryRecord, ...]
    aborts: tuple[AbortRow, ...]
    faults: tuple[FaultRecord, ...]
    ledger: tuple[LedgerSample, ...]
    events: tuple[RunEvent, ...]
    spans: tuple[Span, ...]
    gaps: tuple[Gap, ...]


class _Reader:
    """Reads files of one run and collects the gaps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.gaps: list[Gap] = []

    def read(self, name: str, loses: str, parse: Callable[[Path], T]) -> T | None:
        file = self._path / name
        if not file.is_file():
            self.gaps.append(Gap(name, "missing", loses))
            return None
        try:
            return parse(file)
        except (msgspec.MsgspecError, OSError, ValueError, sqlite3.Error) as error:
            self.gaps.append(Gap(name, f"cannot be read: {error}", loses))
            return None

    def lines(self, name: str, loses: str, parse: Callable[[Path], list[T]]) -> tuple[T, ...]:
        records = self.read(name, loses, parse)
        if records is not None and not records:
            self.gaps.append(Gap(name, "empty", loses))
        return tuple(records or ())


def load_run(path: Path) -> Run:
    """Read a run directory. Raises `RunNotFound` where there is none."""
    require_run(path)
    reader = _Reader(path)
    return Run(
        path=path,
        info=reader.read("run.json", "seed, versions and clock of the run", _json(RunInfo)),
        verdict=reader.read(
            "verdict.json",
            f"verdict and no checks; `severance check {path}` judges the run",
            _json(Verdict),
        ),
        history=reader.lines("history.jsonl", "what clients saw", read_history),
        aborts=reader.lines(
            "aborts.jsonl", "act to seen and wasted tokens of client aborts", _jsonl(AbortRow)
        ),
        faults=reader.lines("faults.jsonl", "when faults were on", _jsonl(FaultRecord)),
        ledger=reader.lines("ledger.jsonl", "free pages over time", _jsonl(LedgerSample)),
        events=reader.lines("events.jsonl", "phases, guards and probes", _jsonl(RunEvent)),
        spans=reader.lines(SPANS_FILE, "waterfalls and server-side times", _spans),
        gaps=tuple(reader.gaps),
    )


def started_at(info: RunInfo) -> datetime | None:
    """When the run began, UTC; None where the clock says nonsense."""
    try:
        return datetime.fromtimestamp(info.clock.wall_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def require_run(path: Path) -> None:
    """Raises `RunNotFound` unless ``path`` holds at least one file of a run."""
    if not path.exists():
        raise RunNotFound(path, "there is no such directory")
    if not path.is_dir():
        raise RunNotFound(path, "this is a file, not a directory")
    if not any((path / name).is_file() for name in _KNOWN_FILES):
        raise RunNotFound(path, f"not a run directory, it has none of {', '.join(_KNOWN_FILES)}")


def require_spans(path: Path) -> list[Span]:
    """The spans of a run. Raises `RunNotFound` or `NoSpans`."""
    require_run(path)
    if not (path / SPANS_FILE).is_file():
        raise NoSpans(path, f"it has no {SPANS_FILE}")
    try:
        spans = _spans(path / SPANS_FILE)
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise NoSpans(path, f"{SPANS_FILE} cannot be read: {error}") from error
    if not spans:
        raise NoSpans(path, f"{SPANS_FILE} holds no span")
    return spans


def _spans(path: Path) -> list[Span]:
    return list(read_spans(path))


def _json(kind: type[T]) -> Callable[[Path], T]:
    decoder = msgspec.json.Decoder(kind)
    return lambda path: decoder.decode(path.read_bytes())


RecordT = TypeVar("RecordT", bound=msgspec.Struct)


def _jsonl(kind: type[RecordT]) -> Callable[[Path], list[RecordT]]:
    return lambda path: read_jsonl(path, kind)
