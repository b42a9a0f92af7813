"""Kill: SIGKILL a worker and all its processes; the heal starts it again on the same ports."""

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
from chaos.http import is_ok
from chaos.undo import Undo

DECLARATION = Declaration(
    kind="process",
    mode=ProcessMode.KILL,
    permits=UNREACHABLE_PEER,
    silences=SERVICE | {Signal.LEDGER, Signal.SPANS, Signal.HEALTH},
    on_heal=HealSemantics(
        lost=Lost.ALL, survives=False, text="a new process on the same ports, which knows nothing"
    ),
)


class KillFault:
    """Proven by the process gone and its port refusing; healed once the new one has generated a token."""

    def __init__(self, deployment: Deployment, worker: str, restart_after_s: float) -> None:
        self.declaration = DECLARATION
        self.links: tuple[str, ...] = ()
        self.workers: tuple[str, ...] = (worker,)
        self.hold_s = restart_after_s
        self.ttl_s = restart_after_s + deployment.ready_within_s
        self._deployment = deployment
        self._worker = worker
        self._pid = 0

    def inject(self) -> None:
        self._pid = self._deployment.worker_pid(self._worker)
        self.end()

    def end(self) -> None:
        """Returns when all of its processes are gone."""
        self._deployment.kill_worker(self._worker)

    def verify(self) -> Proof:
        gone = not self._deployment.worker_runs(self._worker)
        refused = not is_ok(self._deployment.worker_endpoint(self._worker), "/health", 0.3)
        return Proof(
            proven=gone and refused,
            text=(
                f"{self._worker}: pid {self._pid} {'is gone' if gone else 'still runs'}; "
                f"/health {'refused' if refused else 'still answers'}"
            ),
        )

    def undo(self) -> tuple[Undo, ...]:
        return self._deployment.undo_of_kill(self._worker)

    def heal(self, urgent: bool = False) -> HealReport:
        begun = time.monotonic()
        problem = ""
        try:
            self._deployment.restart_worker(self._worker)
        except ChaosError as error:
            problem = str(error)
        ms = (time.monotonic() - begun) * 1000
        detail = problem or "the new worker answers /health_generate"
        report = RungReport(rung=HealRung.RESTART_WORKER, ms=ms, ok=not problem, detail=detail)
        return HealReport(
            rung=HealRung.NONE if problem else HealRung.RESTART_WORKER,
            ms=ms,
            rungs=(report,),
            left=(f"worker {self._worker} is down",) if problem else (),
            detail=detail,
            effect_ms=None if problem else ms,
        )
