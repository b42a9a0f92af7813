"""Collector down or stalled: the span store is away. What serves requests must not notice.

Down: ended, exports are refused. Stalled: stopped (SIGSTOP), the kernel takes exports and nobody answers.
"""

from __future__ import annotations

import time

from chaos.codes import HealRung, Lost, Signal, TelemetryMode
from chaos.deployment import Deployment
from chaos.errors import ChaosError
from chaos.faults.declaration import (
    NO_ABORTS,
    Declaration,
    HealReport,
    HealSemantics,
    Proof,
    RungReport,
)
from chaos.freeze import freeze, still_stopped, thaw
from chaos.proc import Identity
from chaos.undo import Continue

DECLARATIONS = {
    mode: Declaration(
        kind="telemetry",
        mode=mode,
        permits=NO_ABORTS,
        silences=frozenset({Signal.SPANS}),
        on_heal=HealSemantics(lost=lost, survives=survives, text=text),
    )
    for mode, lost, survives, text in (
        (
            TelemetryMode.COLLECTOR_DOWN,
            Lost.IN_FLIGHT,
            False,
            "spans sent meanwhile are gone once their exporter gives up; the file keeps the older ones",
        ),
        (
            TelemetryMode.COLLECTOR_STALL,
            Lost.IN_FLIGHT,
            True,
            "an export that its sender has not given up arrives late; one that it has may arrive twice",
        ),
    )
}


class CollectorFault:
    """Proven by the span store gone (or stopped) and silent; healed when it answers."""

    def __init__(self, deployment: Deployment, mode: TelemetryMode, hold_s: float) -> None:
        self.declaration = DECLARATIONS[mode]
        self.links: tuple[str, ...] = ()
        self.workers: tuple[str, ...] = ()
        self.hold_s = hold_s
        self.ttl_s = hold_s + 10.0
        self._deployment = deployment
        self._stalls = mode is TelemetryMode.COLLECTOR_STALL
        self._processes: tuple[Identity, ...] = ()

    def undo(self) -> tuple[Continue, ...]:
        return tuple(Continue(process=who) for who in self._deployment.collector_processes())

    def inject(self) -> None:
        self._processes = self._deployment.collector_processes()
        if self._stalls:
            freeze(self._processes)
        else:
            self._deployment.stop_collector()

    def verify(self) -> Proof:
        stopped, there = len(still_stopped(self._processes)), self._deployment.collector_processes()
        away = stopped == len(self._processes) if self._stalls else not there
        silent = not self._deployment.collector_answers()
        state = f"{stopped} processes stopped" if self._stalls else f"{len(there)} processes left"
        return Proof(
            proven=bool(self._processes) and away and silent,
            text=f"span store: {state}; it {'is silent' if silent else 'still answers'}",
        )

    def heal(self, urgent: bool = False) -> HealReport:
        begun, problem = time.monotonic(), ""
        thaw(self._processes)
        try:
            self._deployment.start_collector()
        except ChaosError as error:
            problem = str(error)
        ms = (time.monotonic() - begun) * 1e3
        rung = HealRung.CONTINUE_PROCESS if self._stalls else HealRung.RESTART_COLLECTOR
        return HealReport(
            rung=HealRung.NONE if problem else rung,
            ms=ms,
            rungs=(RungReport(rung=rung, ms=ms, ok=not problem, detail=problem),),
            left=(f"the span store is down: {problem}",) if problem else (),
            detail=problem or "the span store answers",
            effect_ms=None if problem else ms,
        )
