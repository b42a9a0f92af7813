"""What a fault says about itself before it acts."""

from __future__ import annotations

from msgspec import Struct

from chaos.codes import AbortReason, HealRung, Signal


class Declaration(Struct, frozen=True, kw_only=True):
    """``permits``: abort reasons that the fault explains. ``silences``: signals that guards and checks
    must not judge by while it is on. ``together``: modes that may be on at the same time."""

    kind: str
    mode: str
    permits: frozenset[AbortReason]
    silences: frozenset[Signal]
    together: frozenset[str] = frozenset()


class Proof(Struct, frozen=True, kw_only=True):
    """Whether the fault was really there, and what showed it, in words."""

    proven: bool
    text: str


class RungReport(Struct, frozen=True, kw_only=True):
    """One rung of the heal ladder: how long it took and what it left."""

    rung: HealRung
    ms: float
    ok: bool
    detail: str = ""


class HealReport(Struct, frozen=True, kw_only=True):
    """``rung``: the one that worked. ``left``: what is still broken; empty means healed."""

    rung: HealRung
    ms: float
    rungs: tuple[RungReport, ...]
    left: tuple[str, ...] = ()
    detail: str = ""

    @property
    def healed(self) -> bool:
        return not self.left
