"""`HeldFault`: a fault that stays on for as long as a block of code runs.

It goes through `chaos.fault_step` like one of a scenario: written down before every act, verified at both
ends of the block, healed by a thread of its own at its time limit even if the block never ends.
"""

from __future__ import annotations

import os
import select
import threading
import time
from types import TracebackType

from chaos.errors import FaultUnproven, NotHealed
from chaos.fault_step import ActiveFaults, FaultStep
from chaos.faults.base import Fault
from chaos.faults.declaration import Declaration, HealReport, Proof
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.shield import signals_wait
from chaos.undo import Undo

_SLACK_S = 30.0


class _Hold(Brake):
    """The step's wait for the end of its fault ends when the block ends. ``reached``: the fault is on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.expired = False
        self.closed = False
        self._let_go_read, self._let_go_write = os.pipe()

    def let_go(self) -> None:
        os.write(self._let_go_write, b"!")

    def sleep_until(self, at: float) -> None:
        self.reached.set()
        timeout_s = max(0.0, at - time.monotonic())
        ready, _, _ = select.select([self._let_go_read], [], [], timeout_s)
        self.expired = not ready

    def close(self) -> None:
        self.closed = True
        super().close()
        os.close(self._let_go_read)
        os.close(self._let_go_write)


class _Observed:
    """The fault itself, with what it said and what broke kept for the block."""

    def __init__(self, fault: Fault) -> None:
        self.declaration: Declaration = fault.declaration
        self.links = fault.links
        self.workers = fault.workers
        self.hold_s = fault.hold_s
        self.ttl_s = fault.ttl_s
        self.proof = Proof(proven=False, text="it was never made")
        self._fault = fault

    def undo(self) -> tuple[Undo, ...]:
        return self._fault.undo()

    def inject(self) -> None:
        try:
            self._fault.inject()
        except Exception as error:
            self.proof = Proof(proven=False, text=f"it could not be made: {error}")
            raise

    def verify(self) -> Proof:
        self.proof = self._fault.verify()
        return self.proof

    def heal(self, urgent: bool = False) -> HealReport:
        return self._fault.heal(urgent)


class HeldFault:
    """A context manager. Raises `FaultUnproven` or `NotHealed` at the end of the block, unless the block
    itself raised; whatever it raised, the fault is healed."""

    def __init__(self, fault_id: str, fault: Fault, journal: Journal, active: ActiveFaults) -> None:
        self.fault_id = fault_id
        self.report: HealReport | None = None
        self._fault = _Observed(fault)
        self._step = FaultStep(fault_id, self._fault, journal, active, {})
        self._hold = _Hold()
        self._thread = threading.Thread(target=self._run, name=fault_id, daemon=True)
        self._ended = threading.Lock()

    @property
    def proof(self) -> Proof:
        """What was seen of it last."""
        return self._fault.proof

    @property
    def is_on(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> HeldFault:
        """Returns when it is on and was looked at. Raises `FaultUnproven` if it could not be made."""
        self._step.declare()
        self._thread.start()
        try:
            self._hold.reached.wait()
        except BaseException:
            self.end()
            raise
        if not self._thread.is_alive() or self.report is not None:
            self.end()
            raise FaultUnproven(f"{self.fault_id}: {self.proof.text}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        if kind is None:
            self.require_proven()

    def end(self) -> None:
        """Heal, and wait for it; signals wait too. Idempotent, also after a block that was never entered."""
        with signals_wait(), self._ended:
            if self._hold.closed:
                return
            if self._thread.ident is not None:
                self._hold.let_go()
                self._thread.join(self._fault.ttl_s + _SLACK_S)
            self._hold.close()

    def _run(self) -> None:
        try:
            self.report = self._step.run(self._hold)
        finally:
            self._hold.reached.set()

    def require_proven(self) -> None:
        """After its end. Raises `NotHealed`, or `FaultUnproven` if it was not there all the time."""
        if self.report is None or not self.report.healed:
            left = self.report.left if self.report else ("its heal did not end",)
            raise NotHealed(f"{self.fault_id}: {'; '.join(left)}")
        if not self.proof.proven:
            raise FaultUnproven(f"{self.fault_id} proves nothing: {self.proof.text}")
        if self._hold.expired:
            raise FaultUnproven(
                f"{self.fault_id} ended by itself after {self._fault.hold_s:g} s, before the block did; "
                "give it a larger at_most_s"
            )
