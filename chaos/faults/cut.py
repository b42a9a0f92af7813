"""`Cut`: one way to cut a link, as toxics, and how its effect is recognized."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from chaos.canary import Canary, Flight
from chaos.codes import CutMode, Direction, LinkKind
from chaos.faults.declaration import (
    SERVICE,
    UNREACHABLE_PEER,
    Declaration,
    HealSemantics,
)
from chaos.toxiproxy.model import Stream, Toxic

_STREAMS: dict[Direction, tuple[tuple[str, Stream], ...]] = {
    Direction.UP: (("up", "upstream"),),
    Direction.DOWN: (("down", "downstream"),),
    Direction.BOTH: (("up", "upstream"), ("down", "downstream")),
}
Bites = Callable[[LinkKind, Flight, Flight], bool]
"""Whether the canary during the cut, against the one before it, shows the effect on such a link."""


class Cut(Struct, frozen=True, kw_only=True):
    """``down``: the proxy stops listening. ``wait_s``: how long a canary must be waited for.

    ``breaks``: the effect may also be seen in connections of the workers that end.
    """

    declaration: Declaration
    toxics: tuple[Toxic, ...]
    bites: Bites
    down: bool = False
    breaks: bool = False
    wait_s: float = 0.3
    load_bytes: int = 0


def link_declaration(mode: CutMode, on_heal: HealSemantics) -> Declaration:
    """A cut that puts the peer out of reach while it is on."""
    return Declaration(
        kind="link", mode=mode, permits=UNREACHABLE_PEER, silences=SERVICE, on_heal=on_heal
    )


def toxics(
    name: str, kind: str, attributes: dict[str, int], direction: Direction
) -> tuple[Toxic, ...]:
    """One toxic for each direction that is cut."""
    return tuple(
        Toxic(name=f"{name}_{word}", type=kind, stream=stream, attributes=attributes)
        for word, stream in _STREAMS[direction]
    )


def swallows(direction: Direction) -> Bites:
    """Bytes of ``direction`` do not arrive. HTTP speaks only when asked: there both look alike."""

    def bites(kind: LinkKind, _: Flight, during: Flight) -> bool:
        deaf = direction is Direction.UP and kind is not LinkKind.BOOTSTRAP
        return during.seen is (Canary.UNHEARD if deaf else Canary.SILENT)

    return bites


def slows(least_ms: Callable[[LinkKind], float]) -> Bites:
    """The canary passes, later by at least ``least_ms``."""

    def bites(kind: LinkKind, before: Flight, during: Flight) -> bool:
        return during.seen is Canary.PASSES and during.ms - before.ms >= least_ms(kind)

    return bites


def shows(seen: Canary) -> Bites:
    return lambda _kind, _before, during: during.seen is seen
