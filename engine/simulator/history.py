"""`History`: what every half of every request was asked and answered, as its client could see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.io_struct import FinishReason
from engine.simulator.schedule import Request

HalfKey = tuple[str, str, int]
"""(worker, rid, room)."""


@dataclass(slots=True)
class HalfRecord:
    """One half of one request at one process. ``abort_ns``: when its worker accepted an abort."""

    worker: str
    incarnation: str
    request: Request
    arrived_ns: int
    accepted: bool = False
    abort_ns: int = 0
    tokens: list[int] = field(default_factory=list)
    finish: FinishReason | None = None
    ended_ns: int = 0
    connection_lost: bool = False

    @property
    def name(self) -> str:
        return f"{self.request.rid}/{self.request.room} at {self.worker}"

    @property
    def key(self) -> HalfKey:
        return (self.worker, self.request.rid, self.request.room)

    @property
    def is_answered(self) -> bool:
        return self.finish is not None or self.connection_lost

    @property
    def completed(self) -> bool:
        return self.finish is not None and self.finish.abort is None

    @property
    def outcome(self) -> str:
        """``length``, ``stop``, an abort's reason, ``connection_lost`` or ``open``."""
        if self.finish is not None:
            abort = self.finish.abort
            return str(abort.reason) if abort is not None else self.finish.type
        return "connection_lost" if self.connection_lost else "open"


@dataclass(slots=True, frozen=True)
class Call:
    """An operator's call that its worker has accepted."""

    op: str
    at_ns: int


class History:
    """Records in order of arrival, operators' calls by number, and a readable log if one is wanted."""

    def __init__(self, keeps_log: bool) -> None:
        self.halves: dict[HalfKey, HalfRecord] = {}
        self.calls: dict[int, Call] = {}
        self.keeps_log = keeps_log
        self.log: list[tuple[int, str, str]] = []
        self._open: dict[str, dict[HalfKey, HalfRecord]] = {}

    def note(self, now_ns: int, who: str, what: str) -> None:
        if self.keeps_log:
            self.log.append((now_ns, who, what))

    def begin(self, record: HalfRecord) -> None:
        self.halves[record.key] = record
        self._open.setdefault(record.worker, {})[record.key] = record

    def closed(self, record: HalfRecord) -> None:
        """The record has its terminal answer, or its connection is gone."""
        self._open[record.worker].pop(record.key, None)

    @property
    def num_open(self) -> int:
        return sum(map(len, self._open.values()))

    def open_at(self, worker: str) -> list[HalfRecord]:
        return list(self._open.get(worker, {}).values())

    def unanswered(self) -> list[HalfRecord]:
        return [record for records in self._open.values() for record in records.values()]
