"""Slow: a worker gets ``cpu_share`` of its time, by stopping and continuing it twenty times a second.

SIGSTOP and SIGCONT in turns and no cgroup: that needs no root and no delegated controller, and works for a
process that somebody else started. A turn of 50 ms is shorter than the beats of a pair (100 ms), so peers
see a slow worker and not a dead one.
"""

from __future__ import annotations

import threading
import time

from chaos.codes import Lost, ProcessMode
from chaos.deployment import Deployment
from chaos.faults.declaration import (
    SERVICE,
    UNREACHABLE_PEER,
    Declaration,
    HealReport,
    HealSemantics,
    Proof,
)
from chaos.faults.pause import PauseFault
from chaos.freeze import still_stopped

DECLARATION = Declaration(
    kind="process",
    mode=ProcessMode.SLOW,
    permits=UNREACHABLE_PEER,
    silences=SERVICE,
    on_heal=HealSemantics(
        lost=Lost.NOTHING, survives=True, text="the same process runs at full speed again"
    ),
)
_TURN_S = 0.05
_LOOKS = 40
_JOIN_S = 3.0


class SlowFault(PauseFault):
    """Proven by how often it was seen stopped in 40 looks: about 1 - ``cpu_share`` of them."""

    def __init__(
        self, deployment: Deployment, worker: str, hold_s: float, cpu_share: float
    ) -> None:
        super().__init__(deployment, worker, hold_s)
        self.declaration = DECLARATION
        self._cpu_share = cpu_share
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def inject(self) -> None:
        super().inject()
        self._thread = threading.Thread(target=self._take_turns, name="slow", daemon=True)
        self._thread.start()

    def verify(self) -> Proof:
        """Half a second of looks, spread so that they do not beat with the turns."""
        stopped = 0
        for _ in range(_LOOKS):
            stopped += bool(self._processes) and bool(still_stopped(self._processes))
            time.sleep(0.0127)
        share = stopped / _LOOKS
        wanted = 1 - self._cpu_share
        # A thread that wakes late stops it late: half of what was asked for is seen even then.
        return Proof(
            proven=share >= wanted / 2 and (share < 1 or self._cpu_share < 0.1),
            text=f"{self._worker}: stopped in {share:.0%} of {_LOOKS} looks ({wanted:.0%} asked for)",
        )

    def heal(self, urgent: bool = False) -> HealReport:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        return super().heal(urgent)

    def _take_turns(self) -> None:
        """Begins and ends with the worker stopped; the heal continues it."""
        due = time.monotonic()
        run_s, stop_s = _TURN_S * self._cpu_share, _TURN_S * (1 - self._cpu_share)
        while not self._stopping.wait(max(0.0, due + stop_s - time.monotonic())):
            self._deployment.resume_worker(self._worker)
            if self._stopping.wait(run_s):
                return
            due = time.monotonic()
            self._halt_again()

    def _halt_again(self) -> None:
        try:
            self._deployment.pause_worker(self._worker)
        except Exception:
            # The worker ended under us: `Deployment.check` says so, and there is nothing to slow.
            self._stopping.set()
