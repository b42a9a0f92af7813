"""What a fault says about itself before it acts."""

from __future__ import annotations

from msgspec import Struct

from chaos.codes import AbortReason, HealRung, Lost, Signal

NO_ABORTS: frozenset[AbortReason] = frozenset()
UNREACHABLE_PEER = frozenset(
    {
        AbortReason.PEER_DEAD,
        AbortReason.BOOTSTRAP_TIMEOUT,
        AbortReason.TRANSFER_FAILED,
        AbortReason.TRANSFER_TIMEOUT,
        # The router drops its other half as soon as one worker answers with an error.
        AbortReason.CLIENT_DISCONNECT,
    }
)
"""Reasons that a peer out of reach explains."""
SERVICE = frozenset({Signal.GOODPUT, Signal.ERRORS, Signal.LATENCY, Signal.KV})
"""What clients see of a cut, and the pages that wait for its end."""


class HealSemantics(Struct, frozen=True, kw_only=True):
    """What the heal gives back. ``survives``: connections that were open go on (None: depends, see text)."""

    lost: Lost
    survives: bool | None
    text: str


class Declaration(Struct, frozen=True, kw_only=True):
    """``permits``: abort reasons that the fault explains. ``silences``: signals that guards and checks
    must not judge by while it is on. ``together``: modes that may be on at the same time.
    ``on_heal`` None: the mode's own page says it (processes)."""

    kind: str
    mode: str
    permits: frozenset[AbortReason]
    silences: frozenset[Signal]
    together: frozenset[str] = frozenset()
    on_heal: HealSemantics | None = None


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
    """``rung``: the one that worked. ``ms``: until all was as before. ``gone_ms``: until the fault itself was
    gone, if that was earlier (a killed toxiproxy holds no toxic). ``left``: what is still broken;
    empty means healed. ``effect_ms``: from the start of the heal until the effect was seen to be gone
    (a canary passed, a worker answered); None: it was not seen."""

    rung: HealRung
    ms: float
    rungs: tuple[RungReport, ...]
    left: tuple[str, ...] = ()
    detail: str = ""
    effect_ms: float | None = None
    gone_ms: float | None = None

    @property
    def healed(self) -> bool:
        return not self.left
