"""Which requests the control run repeats: completed ones, nearest in time to the faults and the aborts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path

import msgspec

from chaos.records import FaultEvent, FaultRecord
from loadtest.history import End, HistoryRecord, Outcome, Sent

Window = tuple[int, int]
"""CLOCK_MONOTONIC nanoseconds, begin and end."""


def choose_control(
    history: Sequence[HistoryRecord], faults: Sequence[FaultRecord], count: int
) -> list[Sent]:
    """Up to ``count`` completed requests: in turn one nearest to each fault, one nearest to an abort."""
    sent = {record.rid: record for record in history if isinstance(record, Sent)}
    ends = [record for record in history if isinstance(record, End) and record.rid in sent]
    completed = {
        end.rid: (sent[end.rid].sent_ns, end.end_ns)
        for end in ends
        if end.outcome is Outcome.COMPLETED
    }
    aborts = [(end.abort.fired_ns, end.abort.fired_ns) for end in ends if end.abort is not None]
    anchors = [[window] for window in fault_windows(faults)] + ([aborts] if aborts else [])
    rankings = [_nearest_first(completed, windows) for windows in anchors] or [list(completed)]
    in_turn = (rid for rid in chain.from_iterable(zip_longest(*rankings)) if rid is not None)
    chosen = list(dict.fromkeys(in_turn))[:count]
    return [sent[rid] for rid in chosen]


def fault_windows(faults: Iterable[FaultRecord]) -> list[Window]:
    """From injection to heal, for each fault that was on."""
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for record in faults:
        if record.event is FaultEvent.INJECTING:
            begun[record.fault_id] = record.at_ns
        elif record.event in (FaultEvent.HEALED, FaultEvent.HEAL_FAILED):
            ended[record.fault_id] = record.at_ns
    return [(at_ns, ended.get(fault_id, at_ns)) for fault_id, at_ns in begun.items()]


def write_requests(path: Path, requests: Iterable[Sent]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(request) + b"\n" for request in requests))


def _nearest_first(spans: dict[str, Window], windows: Sequence[Window]) -> list[str]:
    def distance(rid: str) -> tuple[int, int]:
        begin, end = spans[rid]
        return min(max(0, w_begin - end, begin - w_end) for w_begin, w_end in windows), begin

    return sorted(spans, key=distance)
