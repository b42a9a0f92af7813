"""Reset: a connection ends at the first bytes that it carries, and so does each new one.

toxiproxy's reset_peer with timer 0: with a longer one its removal would hang for the rest of it.
"""

from __future__ import annotations

from chaos.canary import Canary
from chaos.codes import CutMode, Direction, Lost
from chaos.faults.cut import Cut, link_declaration, shows, toxics
from chaos.faults.declaration import HealSemantics

DECLARATION = link_declaration(
    CutMode.RESET,
    HealSemantics(
        lost=Lost.IN_FLIGHT,
        survives=False,
        text="open connections end at their next bytes (which are lost), new ones are reset; an idle "
        "connection lives on",
    ),
)


def reset_cut(direction: Direction = Direction.BOTH) -> Cut:
    return Cut(
        declaration=DECLARATION,
        toxics=toxics("reset", "reset_peer", {"timeout": 0}, direction),
        bites=shows(Canary.CLOSED),
        breaks=True,
    )
