"""`RunEvidence`: a run directory, read once. What is missing or broken is a `Gap`, never an error."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.oracle.fault_window import FaultWindow, fold
from chaos.oracle.plan import Plan, read_plan
from chaos.oracle.requests import NOTHING, Paired, Request, pair
from chaos.oracle.span_index import NO_SPANS, SpanIndex, index_spans
from chaos.records import (
    ClockPair,
    EventKind,
    FaultRecord,
    LedgerSample,
    RunEvent,
    RunInfo,
    read_jsonl,
)
from dashboards.spans import read_spans
from loadtest.history import Outcome, read_history

_LOST = (Outcome.CONN_ERROR, Outcome.NOT_SENT)
_STOPPING_NS = 15_000_000_000
"""The runner stops the load driver first and writes `teardown` when that is done."""
T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=msgspec.Struct)


class Source(StrEnum):
    """The files that checks look at."""

    RUN = "run.json"
    SCENARIO = "scenario.resolved.yaml"
    HISTORY = "history.jsonl"
    CONTROL = "control.jsonl"
    FAULTS = "faults.jsonl"
    LEDGER = "ledger.jsonl"
    EVENTS = "events.jsonl"
    SPANS = "spans.sqlite"


class EvidenceKind(StrEnum):
    """What a target may or may not be able to show (`RunInfo.cannot_show`). What the runner itself writes
    (scenario, faults, events) is always there and no kind."""

    HISTORY = "history"
    SPANS = "spans"
    LEDGER = "ledger"
    METRICS = "metrics"
    CONTROL_RUN = "control run"


KIND_OF: dict[Source, EvidenceKind] = {
    Source.HISTORY: EvidenceKind.HISTORY,
    Source.SPANS: EvidenceKind.SPANS,
    Source.LEDGER: EvidenceKind.LEDGER,
    Source.CONTROL: EvidenceKind.CONTROL_RUN,
}


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """``why``: missing, empty, or what is wrong with it."""

    source: Source
    why: str


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run wrote. A source in ``gaps`` is empty here and proves nothing."""

    directory: Path
    gaps: tuple[Gap, ...]
    info: RunInfo | None
    plan: Plan
    history: Paired
    control: Paired
    fault_records: tuple[FaultRecord, ...]
    faults: tuple[FaultWindow, ...]
    samples: tuple[LedgerSample, ...]
    events: tuple[RunEvent, ...]
    spans: SpanIndex

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.history.requests

    @property
    def finished(self) -> bool:
        """Whether the runner went through its whole plan."""
        return self.info is not None and self.info.finished

    @property
    def load_begin_ns(self) -> int:
        return min((one.sent.scheduled_ns for one in self.requests), default=0)

    @property
    def load_end_ns(self) -> int:
        """When the last request was due."""
        return max((one.sent.scheduled_ns for one in self.requests), default=0)

    @property
    def last_end_ns(self) -> int:
        """When the client was through with the last request."""
        return max((end.end_ns for one in self.requests for end in one.ends), default=0)

    @property
    def cut_ns(self) -> int | None:
        """When a run that did not finish was stopped; None for a finished run."""
        if self.finished:
            return None
        trips = [e.at_ns for e in self.events if e.kind is EventKind.GUARD and e.ok is False]
        return min([*trips, *self.phase_times("teardown")], default=self.last_end_ns)

    def cut_off(self, request: Request) -> bool:
        """Whether the runner itself took this request's client away, by stopping early."""
        cut_ns, end = self.cut_ns, request.end
        if cut_ns is None or end is None or end.outcome not in _LOST:
            return False
        return end.end_ns >= cut_ns - _STOPPING_NS

    @property
    def blind(self) -> frozenset[str]:
        """Kinds of evidence that the target cannot show, as `run.json` says. Nobody else may say so: a
        file that is merely missing is a gap. The history is our own client's: no target can lack it."""
        said = frozenset(self.info.cannot_show) if self.info else frozenset()
        return said - {EvidenceKind.HISTORY}

    def can_show(self, source: Source) -> bool:
        return KIND_OF.get(source) not in self.blind

    def gap(self, source: Source) -> Gap | None:
        return next((gap for gap in self.gaps if gap.source is source), None)

    def phase_times(self, name: str) -> list[int]:
        """When a phase began, CLOCK_MONOTONIC."""
        return [e.at_ns for e in self.events if e.kind is EventKind.PHASE and e.name == name]


class _Reader:
    """Reads files of one run and collects the gaps."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.gaps: list[Gap] = []

    def read(self, source: Source, parse: Callable[[Path], T]) -> T | None:
        path = self.directory / source
        if not path.is_file():
            self.miss(source, "missing")
            return None
        try:
            return parse(path)
        except Exception as error:
            # A doctored file can break any parser in any way; whatever it is, it is no evidence.
            self.miss(source, f"cannot be read: {error}")
            return None

    def lines(self, source: Source, kind: type[RecordT]) -> tuple[RecordT, ...]:
        records = self.read(source, lambda path: read_jsonl(path, kind))
        if records is not None and not records:
            self.miss(source, "empty")
        return tuple(records or ())

    def history(self, source: Source) -> Paired:
        records = self.read(source, read_history)
        if records is None:
            return NOTHING
        paired = pair(records)
        if not paired.requests:
            self.miss(source, "holds no request")
        return paired

    def spans(self, clock: ClockPair | None) -> SpanIndex:
        spans = self.read(Source.SPANS, lambda path: list(read_spans(path)))
        if spans is None:
            return NO_SPANS
        if not spans:
            self.miss(Source.SPANS, "holds no span")
        elif clock is None:
            self.miss(Source.SPANS, "without the clock in run.json its times mean nothing")
        return index_spans(spans, clock) if spans and clock else NO_SPANS

    def miss(self, source: Source, why: str) -> None:
        self.gaps.append(Gap(source=source, why=why))


def load_evidence(directory: Path) -> RunEvidence:
    """Read a run directory, whatever is in it."""
    reader = _Reader(directory)
    info = reader.read(Source.RUN, _read_info)
    plan = reader.read(Source.SCENARIO, read_plan)
    faults = _read_faults(reader, plan)
    return RunEvidence(
        directory=directory,
        info=info,
        plan=plan or Plan(),
        history=reader.history(Source.HISTORY),
        control=reader.history(Source.CONTROL),
        fault_records=faults,
        faults=fold(faults),
        samples=reader.lines(Source.LEDGER, LedgerSample),
        events=reader.lines(Source.EVENTS, RunEvent),
        spans=reader.spans(info.clock if info else None),
        gaps=tuple(reader.gaps),
    )


def _read_info(path: Path) -> RunInfo:
    return msgspec.json.decode(path.read_bytes(), type=RunInfo)


def _read_faults(reader: _Reader, plan: Plan | None) -> tuple[FaultRecord, ...]:
    """A run whose scenario has no fault writes no such file: that is no gap."""
    if plan is not None and not plan.method and not (reader.directory / Source.FAULTS).exists():
        return ()
    return reader.lines(Source.FAULTS, FaultRecord)
