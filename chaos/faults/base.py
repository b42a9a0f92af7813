"""The shape of a fault: inject, verify and heal are declared together."""

from __future__ import annotations

from typing import Protocol

from chaos.faults.declaration import Declaration, HealReport, Proof
from chaos.undo import Undo


class Fault(Protocol):
    """``links`` and ``workers`` are names. ``hold_s``: how long it stays. ``ttl_s``: when it must be gone.

    ``inject`` may raise `ChaosError` half-way; ``heal`` then mends what was done. ``heal`` is idempotent,
    bounded, never raises, and may come from another thread while ``inject`` or ``verify`` still runs.
    """

    declaration: Declaration
    links: tuple[str, ...]
    workers: tuple[str, ...]
    hold_s: float
    ttl_s: float

    def undo(self) -> tuple[Undo, ...]:
        """How to mend it from outside, if this process is gone; written down before the injection."""
        ...

    def inject(self) -> None: ...

    def verify(self) -> Proof:
        """Asked right after the injection and, if that proved nothing, again before the heal."""
        ...

    def heal(self, urgent: bool = False) -> HealReport:
        """``urgent``: the run is being halted, so each rung gets little time before the next one."""
        ...
