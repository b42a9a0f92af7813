"""`Phi`: how surprising a peer's silence is (phi accrual, Hayashibara et al. 2004). A gauge, no verdict.

phi = -log10(P(a beat comes later than now)). 1: one silence in ten is this long; 8: one in a hundred million.
Beats change their pace when rooms open, so the spread never counts as smaller than `MIN_SPREAD_NS`.
"""

from __future__ import annotations

import math
from collections import deque

WINDOW = 64
MIN_SPREAD_NS = 60_000_000
FIRST_INTERVAL_NS = 300_000_000
MAX_PHI = 99.0
SUSPECT_PHI = 8.0


class Phi:
    """Intervals between the last `WINDOW` beats of one session; everything is O(1)."""

    def __init__(self, now_ns: int) -> None:
        self._intervals: deque[int] = deque()
        self._sum = 0
        self._sum_of_squares = 0
        self._last_ns = now_ns
        self._counted_ns = now_ns
        self._add(FIRST_INTERVAL_NS)

    def heard(self, now_ns: int) -> None:
        """A beat has come. Several in a row (each ack is one) count as one interval."""
        self._last_ns = now_ns
        if now_ns - self._counted_ns >= MIN_SPREAD_NS:
            self._add(now_ns - self._counted_ns)
            self._counted_ns = now_ns

    def _add(self, interval_ns: int) -> None:
        self._intervals.append(interval_ns)
        self._sum += interval_ns
        self._sum_of_squares += interval_ns**2
        if len(self._intervals) > WINDOW:
            oldest = self._intervals.popleft()
            self._sum -= oldest
            self._sum_of_squares -= oldest**2

    def value(self, now_ns: int) -> float:
        """phi of the silence since the last beat, 0 to `MAX_PHI`."""
        mean = self._sum / len(self._intervals)
        variance = self._sum_of_squares / len(self._intervals) - mean**2
        spread = max(math.sqrt(max(0.0, variance)), MIN_SPREAD_NS)
        later = 0.5 * math.erfc((now_ns - self._last_ns - mean) / (spread * math.sqrt(2)))
        return min(MAX_PHI, -math.log10(later)) if later > 0.0 else MAX_PHI
