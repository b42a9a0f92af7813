"""One fault from declaration to heal, written to `faults.jsonl` ahead of every act."""

from __future__ import annotations

import threading
import time

from msgspec import Struct

from chaos.codes import HealRung, Signal
from chaos.errors import ChaosError, Stopped
from chaos.faults.base import Fault
from chaos.faults.declaration import HealReport, Proof
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.records import FaultEvent, FaultRecord


class FaultTimes(Struct, frozen=True, kw_only=True):
    """Wall times of a fault that was on, for its span. Nanoseconds."""

    fault_id: str
    injected_wall_ns: int
    healed_wall_ns: int


class ActiveFaults:
    """Faults that are on right now, for guards that must not judge what a fault explains."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._on: dict[str, Fault] = {}

    def add(self, fault_id: str, fault: Fault) -> None:
        with self._lock:
            self._on[fault_id] = fault

    def discard(self, fault_id: str) -> None:
        with self._lock:
            self._on.pop(fault_id, None)

    def explains(self, signal: Signal, worker: str) -> bool:
        """Whether a fault that is on takes this signal of this worker away."""
        with self._lock:
            return any(
                signal in fault.declaration.silences and worker in fault.workers
                for fault in self._on.values()
            )


class FaultStep:
    """Runs one fault. A timer heals it at its TTL even if the runner is stuck in this step."""

    def __init__(
        self,
        fault_id: str,
        fault: Fault,
        journal: Journal,
        active: ActiveFaults,
        incarnations: dict[str, str],
    ) -> None:
        self.fault_id = fault_id
        self.fault = fault
        self._journal = journal
        self._active = active
        self._incarnations = incarnations
        self._lock = threading.Lock()
        self._report: HealReport | None = None
        self._injected_wall_ns = 0
        self._healed_wall_ns = 0

    def declare(self) -> None:
        """Say what will be done and what it explains, before anything is touched."""
        self._write(FaultEvent.DECLARED)

    def run(self, brake: Brake) -> HealReport:
        """Inject, verify, hold, heal. The heal happens whatever is raised in between."""
        self._active.add(self.fault_id, self.fault)
        watchdog = threading.Timer(self.fault.ttl_s, self.heal)
        watchdog.daemon = True
        watchdog.start()
        begun = time.monotonic()
        try:
            self._inject()
            proof = self._verify(last=False)
            brake.sleep_until(begun + self.fault.hold_s)
            if not proof.proven:
                self._verify(last=True)
        except Stopped:
            raise
        except ChaosError as error:
            self._write(FaultEvent.UNPROVEN, error=str(error))
        finally:
            watchdog.cancel()
            report = self.heal()
        return report

    def heal(self) -> HealReport:
        """Idempotent; the second caller gets the first one's report."""
        with self._lock:
            if self._report is not None and self._report.healed:
                return self._report
            self._write(FaultEvent.HEALING)
            report = self._report = self.fault.heal()
            self._healed_wall_ns = time.time_ns()
            self._write(
                FaultEvent.HEALED if report.healed else FaultEvent.HEAL_FAILED,
                rung=report.rung if report.rung is not HealRung.NONE else None,
                heal_ms=report.ms,
                proof=report.detail,
                error=None if report.healed else "; ".join(report.left),
            )
            if report.healed:
                self._active.discard(self.fault_id)
            return report

    def times(self) -> FaultTimes | None:
        """None if it was never on."""
        if not self._injected_wall_ns:
            return None
        return FaultTimes(
            fault_id=self.fault_id,
            injected_wall_ns=self._injected_wall_ns,
            healed_wall_ns=self._healed_wall_ns or time.time_ns(),
        )

    def _inject(self) -> None:
        self._write(FaultEvent.INJECTING)
        self._injected_wall_ns = time.time_ns()
        self.fault.inject()
        self._write(FaultEvent.INJECTED)

    def _verify(self, last: bool) -> Proof:
        proof = self.fault.verify()
        if proof.proven:
            self._write(FaultEvent.VERIFIED, proof=proof.text)
        elif last:
            self._write(FaultEvent.UNPROVEN, proof=proof.text)
        return proof

    def _write(
        self,
        event: FaultEvent,
        *,
        proof: str = "",
        rung: str | None = None,
        heal_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        fault, declaration = self.fault, self.fault.declaration
        self._journal.fault(
            FaultRecord(
                event=event,
                fault_id=self.fault_id,
                kind=declaration.kind,
                mode=declaration.mode,
                links=fault.links,
                workers=fault.workers,
                at_ns=time.monotonic_ns(),
                wall_ns=time.time_ns(),
                host=self._journal.host,
                run_id=self._journal.run_id,
                ttl_s=fault.ttl_s,
                permits=tuple(sorted(declaration.permits)),
                silences=tuple(sorted(declaration.silences)),
                proof=proof,
                rung=rung,
                heal_ms=heal_ms,
                incarnations=self._incarnations,
                error=error,
            )
        )
