"""Cut after N bytes: each connection carries so many bytes in a direction and then ends, new ones too.

The way to cut a KV transfer in its middle. Open connections count from the injection.
"""

from __future__ import annotations

from chaos.canary import Canary
from chaos.codes import CutMode, Direction, Lost
from chaos.faults.cut import Cut, link_declaration, shows, toxics
from chaos.faults.declaration import HealSemantics

DECLARATION = link_declaration(
    CutMode.CUT_AFTER,
    HealSemantics(
        lost=Lost.IN_FLIGHT,
        survives=False,
        text="each connection ends after its bytes, in the middle of a frame; what was on its way is lost",
    ),
)


def cut_after_cut(after_bytes: int, direction: Direction = Direction.BOTH) -> Cut:
    return Cut(
        declaration=DECLARATION,
        toxics=toxics("cut_after", "limit_data", {"bytes": after_bytes}, direction),
        bites=shows(Canary.CLOSED),
        breaks=True,
    )
