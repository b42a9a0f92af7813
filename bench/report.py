"""`Report`: everything that one `python -m bench` measured, as it stands in a results file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.machine import Machine
from bench.row import BenchRow

SCHEMA = "severance.bench/1"


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark. ``error``: why it has no rows of its own (its row says so too)."""

    name: str
    seconds: float
    rows: tuple[BenchRow, ...]
    error: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``quick``: few samples, never to be published. ``date``: UTC, YYYY-MM-DD."""

    schema: str
    date: str
    quick: bool
    machine: Machine
    results: tuple[BenchResult, ...]

    @property
    def rows(self) -> list[BenchRow]:
        return [row for result in self.results for row in result.rows]


def merge(old: Report, new: Report) -> Report:
    """``new``, with what only ``old`` has. Raises ValueError if the two do not belong together."""
    if not old.machine.is_same(new.machine):
        raise ValueError(
            "was measured on another machine or with other versions: measure all again"
        )
    if old.quick or new.quick:
        raise ValueError("a quick run has too few samples to be kept: measure without --quick")
    fresh = {result.name: result for result in new.results}
    kept = [fresh.pop(result.name, result) for result in old.results]
    busier = max(old.machine, new.machine, key=lambda machine: machine.foreign_cores)
    return msgspec.structs.replace(new, machine=busier, results=(*kept, *fresh.values()))


def save(report: Report, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def load(path: Path) -> Report:
    """Raises OSError or msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=Report)
