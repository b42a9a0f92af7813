"""The shape of a fault: inject, verify and heal are declared together."""

from __future__ import annotations

from typing import Protocol

from chaos.faults.declaration import Declaration, HealReport, Proof


class Fault(Protocol):
    """``links`` and ``workers`` are names. ``hold_s``: how long it stays. ``ttl_s``: when it must be gone.

    ``inject`` may raise `ChaosError` half-way; ``heal`` then mends what was done. ``heal`` is idempotent,
    bounded, and never raises.
    """

    declaration: Declaration
    links: tuple[str, ...]
    workers: tuple[str, ...]
    hold_s: float
    ttl_s: float

    def inject(self) -> None: ...

    def verify(self) -> Proof:
        """Asked right after the injection and, if that proved nothing, again before the heal."""
        ...

    def heal(self) -> HealReport: ...
