"""Refuse: connections end and new ones are refused, as when nobody listens.

While the proxy does not listen its port is free for anybody. `PortHolder` keeps it: bound, never listening,
and without SO_REUSEADDR, so that a connect is refused and a thief's bind fails, also one with SO_REUSEADDR.
"""

from __future__ import annotations

import socket

from chaos.canary import Canary
from chaos.codes import CutMode, Lost
from chaos.faults.cut import Cut, link_declaration, shows
from chaos.faults.declaration import HealSemantics
from chaos.links import Endpoint

DECLARATION = link_declaration(
    CutMode.REFUSE,
    HealSemantics(
        lost=Lost.IN_FLIGHT,
        survives=False,
        text="open connections end at once; the rest waits at its sender, who connects again",
    ),
)


def refuse_cut() -> Cut:
    return Cut(declaration=DECLARATION, toxics=(), bites=shows(Canary.REFUSED), down=True)


class PortHolder:
    """Keeps one port from `hold` until `release`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._socket: socket.socket | None = None

    def hold(self) -> bool:
        """False if somebody has it already."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Connections of the proxy linger in TIME_WAIT: only SO_REUSEADDR binds beside those. The
            # short listen makes the kernel forget that it may be shared; without the option nobody
            # can bind beside us any more.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((self._endpoint.host, self._endpoint.port))
            holder.listen(1)
            holder.shutdown(socket.SHUT_RDWR)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        except OSError:
            holder.close()
            return False
        self._socket = holder
        return True

    def share(self) -> None:
        """Let the proxy, which sets SO_REUSEADDR, bind beside us: there is no moment without an owner."""
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
