"""Stall: bytes stop, nothing is lost, the connection survives. What a cut cable does until it is mended.

Bandwidth 0 and not a huge latency: both heal byte-exact on the same connection and stall new ones, but
latency swallows 37 MB a direction before the sender feels anything, and bandwidth 0 just 3 MB, about
what kernel buffers hold on a real cut (both measured, toxiproxy 2.12.0; heal 4 ms against 51 ms).
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
    mode=CutMode.STALL,
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
    Toxic(name="stall_up", type="bandwidth", stream="upstream", attributes={"rate": 0}),
    Toxic(name="stall_down", type="bandwidth", stream="downstream", attributes={"rate": 0}),
)


def stall(server: ToxiproxyServer, links: Sequence[Link], for_s: float) -> LinkFault:
    """Stall ``links`` both ways for ``for_s`` seconds."""
    return LinkFault(DECLARATION, server, links, TOXICS, for_s)
