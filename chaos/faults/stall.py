"""Stall: bytes stop, nothing is lost, the connection survives. What a cut cable does until it is mended.

Bandwidth 0 and not a huge latency: both heal byte-exact on the same connection and stall new ones, but
latency swallows 37 MB a direction before the sender feels anything, and bandwidth 0 just 3 MB, about
what kernel buffers hold on a real cut (both measured, toxiproxy 2.12.0; heal 4 ms against 51 ms).
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
    CutMode.STALL,
    HealSemantics(
        lost=Lost.NOTHING,
        survives=True,
        text="everything that waited arrives, in order, on the same connection",
    ),
)


def stall_cut(direction: Direction = Direction.BOTH) -> Cut:
    return Cut(
        declaration=DECLARATION,
        toxics=toxics("stall", "bandwidth", {"rate": 0}, direction),
        bites=swallows(direction),
    )


def stall(
    server: ToxiproxyServer,
    links: Sequence[Link],
    for_s: float,
    direction: Direction = Direction.BOTH,
) -> LinkFault:
    """Stall ``links`` for ``for_s`` seconds."""
    return LinkFault(stall_cut(direction), server, links, for_s)
