"""`FleetReport`: what one fleet cost."""

from __future__ import annotations

import msgspec

Quantiles = tuple[float, float]
"""p50 and p99."""


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. Times of events are virtual; ``step_us`` and ``took_cpu_s`` are this machine's.

    ``step_us``: by the least length of the queue (0, 1, 10, 100 ...). ``num_sessions``: pairs that met; only
    those beat. Beats are those of the busiest second.
    """

    num_prefill: int
    num_decode: int
    num_requests: int
    num_sessions: int
    num_steps: int
    virtual_s: float
    took_cpu_s: float
    step_us: dict[int, Quantiles]
    beats_a_second: int
    beat_bytes_a_second: int
    abort_ms: Quantiles
    peer_abort_ms: Quantiles
    detect_ms: Quantiles
    num_detected: int
    violation: str | None

    @property
    def num_workers(self) -> int:
        return self.num_prefill + self.num_decode
