"""`Deadlines`: when a request has waited, run or lived long enough. One look at a heap a step."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import StrEnum

from engine.core.codes import AbortOrigin
from engine.core.config import SECOND_NS, SchedulerConfig
from engine.core.req import Req

SLACK = 64


class DeadlineKind(StrEnum):
    """Who set it: the client, for the whole request, or a flag of the server."""

    CLIENT = "client"
    WAITING = "waiting"
    RUNNING = "running"

    @property
    def origin(self) -> AbortOrigin:
        return AbortOrigin.CLIENT if self is DeadlineKind.CLIENT else AbortOrigin.SERVER


@dataclass(slots=True, frozen=True)
class Due:
    """A deadline that has passed."""

    req: Req
    kind: DeadlineKind
    message: str


class Deadlines:
    """Waiting lasts from the arrival until the request first computes in this worker, running from
    then until its end (a transfer included). Entries of requests that have ended are dropped when
    they fall due, or once there are more of them than of the others.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._waiting_ns = config.request_waiting_timeout_ns
        self._running_ns = config.request_running_timeout_ns
        self._heap: list[tuple[int, int, Req, DeadlineKind]] = []
        self._num_pushed = 0
        self._compact_at = SLACK

    def __len__(self) -> int:
        return len(self._heap)

    def arrived(self, req: Req) -> None:
        """Begin to count for a new request."""
        if req.recv.deadline_ns:
            self._push(req.recv.deadline_ns, req, DeadlineKind.CLIENT)
        if self._waiting_ns:
            self._push(req.recv.received_ns + self._waiting_ns, req, DeadlineKind.WAITING)

    def started(self, req: Req, now_ns: int) -> None:
        """``req`` computes for the first time: it waits no more."""
        req.started_ns = now_ns
        if self._running_ns:
            self._push(now_ns + self._running_ns, req, DeadlineKind.RUNNING)

    def nearest_ns(self, req: Req) -> int:
        """The next deadline of a request that computes; 0 for none."""
        running_ns = req.started_ns + self._running_ns if self._running_ns else 0
        times = [time_ns for time_ns in (req.recv.deadline_ns, running_ns) if time_ns]
        return min(times, default=0)

    def pop_due(self, now_ns: int) -> list[Due]:
        """Requests whose deadline has passed, in the order of their deadlines."""
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            _, _, req, kind = heapq.heappop(self._heap)
            if _counts(req, kind):
                due.append(Due(req, kind, self._message(req, kind)))
        return due

    def _push(self, due_ns: int, req: Req, kind: DeadlineKind) -> None:
        if len(self._heap) >= self._compact_at:
            self._heap = [entry for entry in self._heap if _counts(entry[2], entry[3])]
            heapq.heapify(self._heap)
            self._compact_at = 2 * len(self._heap) + SLACK
        self._num_pushed += 1
        heapq.heappush(self._heap, (due_ns, self._num_pushed, req, kind))

    def _message(self, req: Req, kind: DeadlineKind) -> str:
        match kind:
            case DeadlineKind.CLIENT:
                allowed_ns = req.recv.deadline_ns - req.recv.received_ns
                return f"The request's deadline of {allowed_ns / SECOND_NS:g} s has passed."
            case DeadlineKind.WAITING:
                return f"Request waiting timeout reached ({self._waiting_ns / SECOND_NS:g} s)."
            case DeadlineKind.RUNNING:
                return f"Request running timeout reached ({self._running_ns / SECOND_NS:g} s)."


def _counts(req: Req, kind: DeadlineKind) -> bool:
    if req.finished():
        return False
    return kind is not DeadlineKind.WAITING or not req.started_ns
