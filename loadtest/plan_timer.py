"""Makes an abort plan come true: at a time counted from the due time, or at a number of tokens."""

from __future__ import annotations

import time

import gevent

from loadtest.errors import ClientAct
from loadtest.history import AbortKind, AbortPlan
from loadtest.rid_abort import RidAbort
from loadtest.transcript import Transcript

_NS_PER_MS = 1_000_000
_NS_PER_S = 1e9


class PlanTimer:
    """Raises `ClientAct` into the greenlet that started it, or fires the abort by rid.

    It does nothing once the transcript is over: a request that has its answer is not aborted.
    """

    def __init__(self, plan: AbortPlan | None, transcript: Transcript, rid_abort: RidAbort) -> None:
        self._plan = plan
        self._rid_abort = rid_abort
        self._close: gevent.Timeout | None = None
        self._fire: gevent.Greenlet | None = None
        self.due_ns = 0
        if plan is not None:
            transcript.on_over = self.stop
            if plan.after_tokens is not None:
                transcript.on_tokens = self._count

    def start(self, request_due_ns: int) -> None:
        """A time that has passed already fires at once."""
        if self._plan is None or self._plan.after_ms is None:
            return
        self.due_ns = request_due_ns + round(self._plan.after_ms * _NS_PER_MS)
        delay_s = max(0.0, (self.due_ns - time.monotonic_ns()) / _NS_PER_S)
        if self._plan.kind is AbortKind.RID:
            self._fire = gevent.spawn_later(delay_s, self._rid_abort.fire, self.due_ns)
        else:
            self._close = gevent.Timeout.start_new(delay_s, ClientAct())

    def stop(self) -> None:
        """From here on nothing is raised and nothing fired. Safe to repeat; does not block."""
        if self._close is not None:
            self._close.close()
        if self._fire is not None:
            self._fire.kill(block=False)

    def _count(self, num_tokens: int) -> None:
        plan = self._plan
        if plan is None or plan.after_tokens is None or num_tokens < plan.after_tokens:
            return
        if plan.kind is AbortKind.RID:
            self._rid_abort.fire(time.monotonic_ns())
        else:
            self.due_ns = time.monotonic_ns()
            raise ClientAct
