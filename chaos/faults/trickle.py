"""Trickle: the link carries ``rate_kb_s`` and no more; what waits beyond that presses back on its sender."""

from __future__ import annotations

from chaos.codes import CutMode, Direction, LinkKind, Lost
from chaos.faults.cut import Cut, link_declaration, slows, toxics
from chaos.faults.declaration import HealSemantics

DECLARATION = link_declaration(
    CutMode.TRICKLE,
    HealSemantics(
        lost=Lost.NOTHING,
        survives=True,
        text="the backlog arrives at full speed, in order, on the same connection",
    ),
)
_LOAD_S = 0.15
_MOST_BYTES = 48_000
_GREETING_BYTES = 64
"""What comes down of a peer that was greeted."""


def trickle_cut(rate_kb_s: int, direction: Direction = Direction.BOTH) -> Cut:
    """A canary carries a load up that takes 0.15 s. Down there is no more than a greeting."""
    load = min(_MOST_BYTES, int(rate_kb_s * 1000 * _LOAD_S))
    carried = _GREETING_BYTES if direction is Direction.DOWN else load
    least_ms = 0.6 * carried / rate_kb_s

    def expected_ms(_: LinkKind) -> float:
        return least_ms

    return Cut(
        declaration=DECLARATION,
        toxics=toxics("trickle", "bandwidth", {"rate": rate_kb_s}, direction),
        bites=slows(expected_ms),
        wait_s=0.5 + 2 * carried / rate_kb_s / 1e3,
        load_bytes=0 if direction is Direction.DOWN else load,
    )
