"""One time axis for records on two clocks: seconds since the load began."""

from __future__ import annotations

import msgspec

from chaos.records import EventKind, FaultRecord, LedgerSample, RunEvent
from dashboards.run_dir import Run
from loadtest.history import Sent

NS = 1e9


class RunClock(msgspec.Struct, frozen=True):
    """``offset_ns`` turns monotonic into wall time on ``host``; ``zero_ns`` (wall) is second 0."""

    host: str
    offset_ns: int
    zero_ns: int

    def mono(self, at_ns: int) -> float:
        """Seconds on the axis of a monotonic time of the run's host."""
        return (at_ns + self.offset_ns - self.zero_ns) / NS

    def wall(self, at_ns: int) -> float:
        return (at_ns - self.zero_ns) / NS

    def offset_of(self, sent: Sent) -> int:
        """A load driver on another host has a monotonic clock of its own."""
        if sent.host == self.host or not sent.wall_ns:
            return self.offset_ns
        return sent.wall_ns - sent.sent_ns


def clock_of(run: Run) -> RunClock:
    """From `run.json`; else from the first record that carries both clocks."""
    sent = next((record for record in run.history if isinstance(record, Sent)), None)
    if run.info:
        host, offset = run.info.host, run.info.clock.wall_ns - run.info.clock.mono_ns
    elif sent:
        host, offset = sent.host, sent.wall_ns - sent.sent_ns
    else:
        pair = next(iter(_stamped(run)), None)
        host, offset = (pair.host, pair.wall_ns - pair.at_ns) if pair else ("", 0)
    return RunClock(host, offset, _zero(run, offset))


def _stamped(run: Run) -> list[FaultRecord | RunEvent | LedgerSample]:
    """The runner's records, each with both clocks."""
    return [*run.faults, *run.events, *run.ledger]


def _zero(run: Run, offset: int) -> int:
    for event in run.events:
        if event.kind is EventKind.PHASE and event.name == "load":
            return event.wall_ns
    starts = [record.scheduled_ns + offset for record in run.history if isinstance(record, Sent)]
    starts = starts or [record.wall_ns for record in _stamped(run)]
    return min(starts or [span.start_ns for span in run.spans] or [0])
