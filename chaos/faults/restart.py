"""Restart: SIGTERM, wait for the end, start again on the same ports: what a rolling upgrade does."""

from __future__ import annotations

from chaos.codes import AbortReason, ProcessMode
from chaos.deployment import Deployment
from chaos.faults.declaration import Declaration
from chaos.faults.kill import DECLARATION as KILL
from chaos.faults.kill import KillFault

DECLARATION = Declaration(
    kind="process",
    mode=ProcessMode.RESTART,
    permits=KILL.permits | {AbortReason.SHUTDOWN},
    silences=KILL.silences,
    on_heal=KILL.on_heal,
)
_ENDS_WITHIN_S = 10.0


class RestartFault(KillFault):
    """As kill, but the worker is asked to end."""

    def __init__(self, deployment: Deployment, worker: str, restart_after_s: float) -> None:
        super().__init__(deployment, worker, restart_after_s)
        self.declaration = DECLARATION
        self.ttl_s += _ENDS_WITHIN_S

    def end(self) -> None:
        self._deployment.stop_worker(self._worker)
