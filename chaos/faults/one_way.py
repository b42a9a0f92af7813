"""One way: bytes of one direction stop or are lost; the other direction works.

Each end still hears or is heard, never both: liveness that listens to one direction only is fooled.
"""

from __future__ import annotations

from msgspec.structs import replace

from chaos.codes import CutMode, Direction, Lost
from chaos.faults.blackhole import blackhole_cut
from chaos.faults.cut import Cut, link_declaration
from chaos.faults.declaration import HealSemantics
from chaos.faults.stall import stall_cut

DECLARATIONS = {
    CutMode.STALL: link_declaration(
        CutMode.ONE_WAY,
        HealSemantics(
            lost=Lost.NOTHING, survives=True, text="of stall: as stall, in the cut direction"
        ),
    ),
    CutMode.BLACKHOLE: link_declaration(
        CutMode.ONE_WAY,
        HealSemantics(
            lost=Lost.ALL,
            survives=False,
            text="of blackhole: the cut direction's bytes are lost, the heal closes each connection",
        ),
    ),
}


def one_way_cut(direction: Direction, of: CutMode) -> Cut:
    """``of``: stall or blackhole. ``direction``: up or down."""
    cut = stall_cut(direction) if of is CutMode.STALL else blackhole_cut(direction)
    return replace(cut, declaration=DECLARATIONS[of])
