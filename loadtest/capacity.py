"""How much a closed loop got through, without the bias of a short window."""

from __future__ import annotations

from loadtest.client import Finished
from loadtest.history import Outcome
from loadtest.summary import Capacity

_NS_PER_S = 1e9


class CapacityMeter:
    """A completed request counts by the share of its life inside the window.

    In a window of a few requests, counting whole ones would be off by up to one per open slot.
    """

    def __init__(self) -> None:
        self._completed: list[tuple[int, int, int]] = []

    def take(self, finished: Finished) -> None:
        sent, end = finished.sent, finished.end
        if end is not None and end.outcome is Outcome.COMPLETED:
            self._completed.append((sent.sent_ns, end.end_ns, end.osl))

    def measure(self, start_ns: int, duration_s: float) -> Capacity:
        """Over the ``duration_s`` from ``start_ns`` (CLOCK_MONOTONIC)."""
        stop_ns = start_ns + duration_s * _NS_PER_S
        num_requests = num_tokens = 0.0
        for sent_ns, end_ns, osl in self._completed:
            share = (min(end_ns, stop_ns) - sent_ns) / max(1, end_ns - sent_ns)
            num_requests += max(0.0, share)
            num_tokens += max(0.0, share) * osl
        return Capacity(
            tokens_per_s=num_tokens / duration_s,
            req_per_s=num_requests / duration_s,
            requests=len(self._completed),
            duration_s=duration_s,
        )
