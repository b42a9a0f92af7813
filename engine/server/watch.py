"""`SchedulerWatch`: is the scheduler loop alive? Judged from its beats, not from its process."""

from __future__ import annotations

import asyncio

from engine.core.io_struct import SchedulerBeat, SchedulerReady

BEAT_TIMEOUT_NS = 2_000_000_000
STEP_TIMEOUT_NS = 30_000_000_000


class SchedulerWatch:
    """What the scheduler last said of itself. ``down``: why this worker serves no more."""

    def __init__(self) -> None:
        self.ready: SchedulerReady | None = None
        self.became_ready = asyncio.Event()
        self.down: str | None = None
        self.step = 0
        self._step_age_ns = 0
        self._beat_ns = 0

    def on_ready(self, ready: SchedulerReady, now_ns: int) -> None:
        self.ready = ready
        self._beat_ns = now_ns
        self.became_ready.set()

    def on_beat(self, beat: SchedulerBeat, now_ns: int) -> None:
        self.step = beat.step
        self._step_age_ns = beat.step_age_ns
        self._beat_ns = now_ns

    def trouble(self, now_ns: int) -> str | None:
        """Why `/health` must fail; None when all is well."""
        if self.down is not None:
            return self.down
        if self.ready is None:
            return "the model is still loading"
        if now_ns - self._beat_ns > BEAT_TIMEOUT_NS:
            return f"no beat from the scheduler for {(now_ns - self._beat_ns) / 1e9:.1f} s"
        if self._step_age_ns > STEP_TIMEOUT_NS:
            return f"the scheduler has been in one step for {self._step_age_ns / 1e9:.0f} s"
        return None
