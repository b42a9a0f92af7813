"""Blackhole: bytes are acknowledged and lost; the heal closes the connections, as the stream has a hole.

The nastiest cut for prefill/decode: the sender believes that its KV pages arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.codes import CutMode, Direction, Lost
from chaos.faults.cut import Cut, link_declaration, swallows, toxics
from chaos.faults.declaration import HealSemantics
from chaos.faults.link import LinkFault
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer

DECLARATION = link_declaration(
    CutMode.BLACKHOLE,
    HealSemantics(
        lost=Lost.ALL,
        survives=False,
        text="what was sent is lost without an error; the heal closes each connection",
    ),
)


def blackhole_cut(direction: Direction = Direction.BOTH) -> Cut:
    return Cut(
        declaration=DECLARATION,
        toxics=toxics("blackhole", "timeout", {"timeout": 0}, direction),
        bites=swallows(direction),
    )


def blackhole(
    server: ToxiproxyServer,
    links: Sequence[Link],
    for_s: float,
    direction: Direction = Direction.BOTH,
) -> LinkFault:
    """Lose everything on ``links`` for ``for_s`` seconds."""
    return LinkFault(blackhole_cut(direction), server, links, for_s)
