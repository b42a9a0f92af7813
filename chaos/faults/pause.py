"""Pause: every process of a worker is stopped (SIGSTOP) and continued: what a paused virtual machine does.

Its sockets stay open and the kernel acknowledges for it: peers see silence, never an error. After the heal it
goes on with what it had, and its clocks jump.
"""

from __future__ import annotations

import time

from chaos.codes import HealRung, Lost, ProcessMode, Signal
from chaos.deployment import Deployment
from chaos.errors import ChaosError
from chaos.faults.declaration import (
    SERVICE,
    UNREACHABLE_PEER,
    Declaration,
    HealReport,
    HealSemantics,
    Proof,
    RungReport,
)
from chaos.freeze import still_stopped, thaw
from chaos.http import is_ok
from chaos.proc import Identity
from chaos.undo import Continue

DECLARATION = Declaration(
    kind="process",
    mode=ProcessMode.PAUSE,
    permits=UNREACHABLE_PEER,
    silences=SERVICE | {Signal.LEDGER, Signal.HEALTH},
    on_heal=HealSemantics(
        lost=Lost.NOTHING,
        survives=True,
        text="the same process goes on; what its sockets buffered arrives, its peers may have given up",
    ),
)
_ANSWERS_WITHIN_S = 5.0


class PauseFault:
    """Proven by every process in state T and no answer; healed when all run and the worker answers."""

    def __init__(self, deployment: Deployment, worker: str, hold_s: float) -> None:
        self.declaration = DECLARATION
        self.links: tuple[str, ...] = ()
        self.workers: tuple[str, ...] = (worker,)
        self.hold_s = hold_s
        self.ttl_s = hold_s + 2.0
        self._deployment = deployment
        self._worker = worker
        self._processes: tuple[Identity, ...] = ()

    def undo(self) -> tuple[Continue, ...]:
        processes = self._deployment.worker_processes(self._worker)
        return tuple(Continue(process=who) for who in processes)

    def inject(self) -> None:
        self._processes = self._deployment.worker_processes(self._worker)
        self._deployment.pause_worker(self._worker)

    def verify(self) -> Proof:
        stopped = still_stopped(self._processes)
        silent = not is_ok(self._deployment.worker_endpoint(self._worker), "/health", 0.3)
        all_of_it = bool(self._processes) and len(stopped) == len(self._processes)
        return Proof(
            proven=all_of_it and silent,
            text=(
                f"{self._worker}: {len(stopped)} of {len(self._processes)} processes are stopped; "
                f"/health {'is silent' if silent else 'still answers'}"
            ),
        )

    def heal(self, urgent: bool = False) -> HealReport:
        """SIGCONT takes microseconds; whether the worker answers is waited for, but ends no wait."""
        begun = time.monotonic()
        try:
            self._deployment.resume_worker(self._worker)
        except ChaosError:
            thaw(self._processes)
        left = _wait_until_they_run(self._processes)
        ms = (time.monotonic() - begun) * 1e3
        within_s = 1.0 if urgent else _ANSWERS_WITHIN_S
        answers = self._answers(begun + within_s) if not left else False
        rung = HealRung.NONE if left else HealRung.CONTINUE_PROCESS
        detail = f"the worker {'answers' if answers else 'does not answer'}"
        return HealReport(
            rung=rung,
            ms=ms,
            rungs=(RungReport(rung=HealRung.CONTINUE_PROCESS, ms=ms, ok=not left, detail=detail),),
            left=tuple(f"{self._worker}: pid {who.pid} is still stopped" for who in left),
            detail=detail,
            effect_ms=(time.monotonic() - begun) * 1e3 if answers else None,
        )

    def _answers(self, deadline: float) -> bool:
        endpoint = self._deployment.worker_endpoint(self._worker)
        while not (answers := is_ok(endpoint, "/health", 0.3)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return answers


def _wait_until_they_run(processes: tuple[Identity, ...]) -> list[Identity]:
    deadline = time.monotonic() + 1.0
    while (left := still_stopped(processes)) and time.monotonic() < deadline:
        time.sleep(0.002)
    return left
