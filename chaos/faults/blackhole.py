"""Blackhole: bytes are acknowledged and lost; the heal closes the connections, as the stream has a hole.

The nastiest cut for prefill/decode: the sender believes that its KV pages arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.codes import AbortReason, CutMode, Signal
from chaos.faults.declaration import Declaration
from chaos.faults.link import LinkFault
from chaos.links import Link
from chaos.toxiproxy.model import Toxic
from chaos.toxiproxy.server import ToxiproxyServer

DECLARATION = Declaration(
    kind="link",
    mode=CutMode.BLACKHOLE,
    permits=frozenset(
        {
            AbortReason.PEER_DEAD,
            AbortReason.BOOTSTRAP_TIMEOUT,
            AbortReason.TRANSFER_FAILED,
            AbortReason.TRANSFER_TIMEOUT,
            # The router drops its other half as soon as one worker answers with an error.
            AbortReason.CLIENT_DISCONNECT,
        }
    ),
    silences=frozenset({Signal.GOODPUT}),
)
TOXICS = (
    Toxic(name="blackhole_up", type="timeout", stream="upstream", attributes={"timeout": 0}),
    Toxic(name="blackhole_down", type="timeout", stream="downstream", attributes={"timeout": 0}),
)


def blackhole(server: ToxiproxyServer, links: Sequence[Link], for_s: float) -> LinkFault:
    """Lose everything on ``links``, both ways, for ``for_s`` seconds."""
    return LinkFault(DECLARATION, server, links, TOXICS, for_s)
