"""What the client saw lately, and in this run's own baseline: the numbers that SLO guards look at.

The baseline is everything that ended before the first fault. ITL is a request's mean gap between tokens
(``(last - first) / (tokens - 1)``): the history holds no single gaps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from loadtest.history import End, Outcome, Sent

ERRORS = (Outcome.HTTP_ERROR, Outcome.CONN_ERROR, Outcome.ABORTED_SERVER, Outcome.TRUNCATED)
_OWN_WISH = (Outcome.ABORTED_DISCONNECT, Outcome.ABORTED_RID, Outcome.ABORTED_DEADLINE)
_KEEP_S = 120.0


class Done(Struct, frozen=True, kw_only=True):
    """One ended request. Milliseconds; None where it got no (second) token."""

    end_ns: int
    outcome: Outcome
    ttft_ms: float | None
    itl_ms: float | None


class Recent:
    """Ended requests: of the last two minutes, and of the baseline."""

    def __init__(self, first_fault_ns: Callable[[], int | None]) -> None:
        self._first_fault_ns = first_fault_ns
        self._done: list[Done] = []
        self._baseline: list[Done] = []
        self._begun_ns: int | None = None

    def take(self, ended: Iterable[tuple[Sent, End]]) -> None:
        """Add requests that ended since the last call."""
        fresh = [_done(sent, end) for sent, end in ended]
        if fresh and self._begun_ns is None:
            self._begun_ns = min(one.end_ns for one in fresh)
        first_ns = self._first_fault_ns()
        self._baseline += [one for one in fresh if first_ns is None or one.end_ns < first_ns]
        oldest_ns = time.monotonic_ns() - int(_KEEP_S * 1e9)
        self._done = [one for one in self._done + fresh if one.end_ns >= oldest_ns]

    def within(self, seconds: float) -> Sequence[Done]:
        """Those that ended in the last ``seconds``, but for those that their client gave up."""
        since_ns = time.monotonic_ns() - int(seconds * 1e9)
        return [
            one for one in self._done if one.end_ns >= since_ns and one.outcome not in _OWN_WISH
        ]

    @property
    def baseline(self) -> Sequence[Done]:
        """But for those that their client gave up."""
        return [one for one in self._baseline if one.outcome not in _OWN_WISH]

    @property
    def baseline_rate(self) -> float | None:
        """Completed requests a second before the first fault; None: too few to tell."""
        done = [one for one in self.baseline if one.outcome is Outcome.COMPLETED]
        if len(done) < 2 or self._begun_ns is None:
            return None
        last_ns = self._first_fault_ns() or time.monotonic_ns()
        return len(done) / max(1e-3, (last_ns - self._begun_ns) / 1e9)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Nearest rank; None of nothing."""
    if not values:
        return None
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def error_share(done: Sequence[Done]) -> float:
    return sum(one.outcome in ERRORS for one in done) / len(done) if done else 0.0


def _done(sent: Sent, end: End) -> Done:
    ttft_ms = itl_ms = None
    if end.first_ns is not None:
        ttft_ms = (end.first_ns - sent.scheduled_ns) / 1e6
        if end.last_ns is not None and end.osl > 1:
            itl_ms = (end.last_ns - end.first_ns) / 1e6 / (end.osl - 1)
    return Done(end_ns=end.end_ns, outcome=end.outcome, ttft_ms=ttft_ms, itl_ms=itl_ms)
