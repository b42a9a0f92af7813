"""Latency: every byte arrives later, by ``latency_ms`` plus or minus ``jitter_ms`` (uniform, each chunk)."""

from __future__ import annotations

from chaos.codes import CutMode, Direction, LinkKind, Lost
from chaos.faults.cut import Cut, slows, toxics
from chaos.faults.declaration import (
    NO_ABORTS,
    SERVICE,
    UNREACHABLE_PEER,
    Declaration,
    HealSemantics,
)

_HARMLESS_MS = 500
"""So much delay must abort nothing (DESIGN 7): then no abort is permitted either."""
_SHARE = 0.7
_LEGS = {
    Direction.BOTH: {True: 3, False: 2},
    Direction.UP: {True: 1, False: 1},
    Direction.DOWN: {True: 2, False: 1},
}
"""How often a canary crosses: zmq greeting down, ours up, its rest down; HTTP question up, answer down."""
ON_HEAL = HealSemantics(
    lost=Lost.NOTHING,
    survives=True,
    text="everything that was delayed arrives at once, in order, on the same connection",
)


def latency_cut(latency_ms: int, jitter_ms: int, direction: Direction = Direction.BOTH) -> Cut:
    """``jitter_ms`` is smaller than ``latency_ms``, or the effect could not be told from none."""
    most_ms, least_ms = latency_ms + jitter_ms, latency_ms - jitter_ms

    def expected_ms(kind: LinkKind) -> float:
        return _SHARE * least_ms * _LEGS[direction][kind is not LinkKind.BOOTSTRAP]

    return Cut(
        declaration=Declaration(
            kind="link",
            mode=CutMode.LATENCY,
            permits=NO_ABORTS if most_ms <= _HARMLESS_MS else UNREACHABLE_PEER,
            silences=SERVICE,
            on_heal=ON_HEAL,
        ),
        toxics=toxics(
            "latency", "latency", {"latency": latency_ms, "jitter": jitter_ms}, direction
        ),
        bites=slows(expected_ms),
        wait_s=0.3 + 3 * most_ms / 1e3,
    )
