"""One fault from declaration to heal, written to `faults.jsonl` ahead of every act."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from chaos.codes import HealRung, Signal
from chaos.errors import ChaosError, FaultCancelled, JournalLost, Stopped
from chaos.faults.base import Fault
from chaos.faults.declaration import HealReport, Proof
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.records import EventKind, FaultEvent, FaultRecord


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
        self._first_on_ns: int | None = None
        self._last_off: tuple[int, frozenset[Signal]] | None = None

    def add(self, fault_id: str, fault: Fault) -> None:
        with self._lock:
            self._on[fault_id] = fault
            if self._first_on_ns is None:
                self._first_on_ns = time.monotonic_ns()

    def discard(self, fault_id: str) -> None:
        with self._lock:
            fault = self._on.pop(fault_id, None)
            if fault is not None:
                self._last_off = time.monotonic_ns(), fault.declaration.silences

    @property
    def first_on_ns(self) -> int | None:
        """When the first fault of the run was declared on; what ended before is this run's baseline."""
        with self._lock:
            return self._first_on_ns

    @property
    def age_s(self) -> float:
        """Seconds since the first fault of the run was on; 0 before."""
        first_ns = self.first_on_ns
        return 0.0 if first_ns is None else (time.monotonic_ns() - first_ns) / 1e9

    def silenced(self, signal: Signal, grace_s: float) -> bool:
        """Whether a fault takes this signal of the whole deployment away now, or did ``grace_s`` ago."""
        with self._lock:
            if any(signal in fault.declaration.silences for fault in self._on.values()):
                return True
            if self._last_off is None:
                return False
            at_ns, silences = self._last_off
            return signal in silences and time.monotonic_ns() - at_ns < grace_s * 1e9

    def explains(self, signal: Signal, worker: str) -> bool:
        """Whether a fault that is on takes this signal of this worker away."""
        with self._lock:
            return any(
                signal in fault.declaration.silences and worker in fault.workers
                for fault in self._on.values()
            )


class FaultStep:
    """Runs one fault. A thread beside it heals at once when the brake is pulled, and at the fault's TTL,
    whatever the step itself is doing then."""

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
        self._injecting = False
        self._injected_wall_ns = 0
        self._healed_wall_ns = 0

    def declare(self) -> None:
        """Say what will be done and what it explains, before anything is touched."""
        self._write(FaultEvent.DECLARED)

    def run(self, brake: Brake) -> HealReport:
        """Inject, verify, hold, heal. The heal happens whatever is raised in between."""
        self._active.add(self.fault_id, self.fault)
        with self._watched(brake):
            begun = time.monotonic()
            try:
                self._inject()
                proof = self._verify(known=None)
                brake.sleep_until(begun + self.fault.hold_s)
                self._verify(known=proof)
            except Stopped:
                raise
            except Exception as error:
                # Also a bug in a fault: it is healed, recorded, and proves nothing.
                brake.check()
                self._note(FaultEvent.UNPROVEN, error=_in_words(error))
            finally:
                report = self.heal(urgent=brake.pulled, halted_by=brake)
        return report

    def heal(self, urgent: bool = False, halted_by: Brake | None = None) -> HealReport:
        """Idempotent; the second caller gets the first one's report. ``halted_by``: knows when it was decided
        to halt the run; the rungs of the ladder are timed from there."""
        with self._lock:
            if self._report is not None and self._report.healed:
                return self._report
            begun = time.monotonic()
            if not urgent:
                self._note(FaultEvent.HEALING)
            final = not self._injecting
            report = self._mend(urgent)
            # While the injection still runs it may add to what was just taken off: heal again after it.
            self._report = report if final else None
            self._healed_wall_ns = time.time_ns()
            if urgent:
                # An urgent heal acts first and writes after: the disk may be slow.
                self._note(FaultEvent.HEALING)
            self._note_heal(report)
            if halted_by is not None and halted_by.pulled_at is not None:
                decided, breached = halted_by.pulled_at, halted_by.breached_at
                breach_ms = None if breached is None else (breached - decided) * 1e3
                self._note_ladder(report, (begun - decided) * 1e3, breach_ms)
            if report.healed and final:
                self._active.discard(self.fault_id)
            return report

    def _mend(self, urgent: bool) -> HealReport:
        try:
            return self.fault.heal(urgent)
        except Exception as error:
            left = (f"fault {self.fault_id}: its heal failed: {_in_words(error)}",)
            return HealReport(rung=HealRung.NONE, ms=0.0, rungs=(), left=left)

    @contextmanager
    def _watched(self, brake: Brake) -> Iterator[None]:
        done_read, done_write = os.pipe()

        def watch() -> None:
            pulled = brake.pulled_within(self.fault.ttl_s, unless=done_read)
            if pulled is not None:
                self.heal(urgent=True, halted_by=brake)

        watcher = threading.Thread(target=watch, name=f"heals-{self.fault_id}", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            os.write(done_write, b"!")
            watcher.join()
            os.close(done_read)
            os.close(done_write)

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
        with self._lock:
            if self._report is not None:
                raise FaultCancelled("healed before it was made")
            self._injecting = True
        self._injected_wall_ns = time.time_ns()
        try:
            self.fault.inject()
        finally:
            self._injecting = False
        self._write(FaultEvent.INJECTED)

    def _verify(self, known: Proof | None) -> Proof:
        """``known``: what the first look proved; the second must not take it back."""
        proof = self.fault.verify()
        if proof.proven:
            if known is None or not known.proven:
                self._write(FaultEvent.VERIFIED, proof=proof.text)
        elif known is not None:
            self._write(FaultEvent.UNPROVEN, proof=proof.text)
        return proof

    def _note_heal(self, report: HealReport) -> None:
        self._note(
            FaultEvent.HEALED if report.healed else FaultEvent.HEAL_FAILED,
            rung=report.rung if report.rung is not HealRung.NONE else None,
            heal_ms=report.ms,
            effect_ms=report.effect_ms,
            proof=report.detail,
            error=None if report.healed else "; ".join(report.left),
        )

    def _note_ladder(self, report: HealReport, begun_ms: float, breach_ms: float | None) -> None:
        """Milliseconds since the decision: last toxic gone, canary fine. A rung not reached is not ok."""
        gone_ms = report.gone_ms if report.gone_ms is not None else report.ms
        known = report.healed or report.gone_ms is not None
        rungs = {
            "breach": breach_ms,
            "decision": 0.0,
            "toxics_gone": begun_ms + gone_ms if known else None,
            "canary": None if report.effect_ms is None else begun_ms + report.effect_ms,
        }
        for name, ms in rungs.items():
            self._journal.event(
                EventKind.LADDER, f"{self.fault_id}:{name}", ok=ms is not None, value=ms
            )

    def _note(
        self,
        event: FaultEvent,
        *,
        proof: str = "",
        rung: str | None = None,
        heal_ms: float | None = None,
        effect_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        """A line about what was done already: a full disk loses the line, not the heal."""
        with contextlib.suppress(JournalLost):
            self._write(
                event, proof=proof, rung=rung, heal_ms=heal_ms, effect_ms=effect_ms, error=error
            )

    def _write(
        self,
        event: FaultEvent,
        *,
        proof: str = "",
        rung: str | None = None,
        heal_ms: float | None = None,
        effect_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        """Raises `JournalLost`."""
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
                undo=fault.undo() if event is FaultEvent.INJECTING else (),
                effect_ms=effect_ms,
            )
        )


def _in_words(error: Exception) -> str:
    return str(error) if isinstance(error, ChaosError) else f"{type(error).__name__}: {error}"
