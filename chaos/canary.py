"""A canary: a short connection of our own through a link's proxy, to see whether bytes get through.

Both kinds of peer speak first or answer at once: a zmq socket sends its greeting on accept, the rendezvous
answers any request. The canary reads that and closes; no peer state comes of it.
"""

from __future__ import annotations

import socket
from enum import StrEnum

from chaos.codes import LinkKind
from chaos.links import Link

_ZMTP_SIGNATURE = b"\xff"
_HTTP_ANSWER = b"HTTP/1."
_QUESTION = b"GET /health HTTP/1.0\r\nHost: canary\r\nConnection: close\r\n\r\n"


class Canary(StrEnum):
    """What came back."""

    PASSES = "passes"
    SILENT = "silent"
    CLOSED = "closed"
    REFUSED = "refused"


def send_canary(link: Link, wait_s: float = 0.3) -> Canary:
    """Connect to the link's proxy and wait for the peer's first bytes."""
    http = link.name.kind is LinkKind.BOOTSTRAP
    try:
        connection = socket.create_connection((link.listen.host, link.listen.port), wait_s)
    except OSError:
        return Canary.REFUSED
    with connection:
        try:
            if http:
                connection.sendall(_QUESTION)
            first = connection.recv(16)
        except TimeoutError:
            return Canary.SILENT
        except OSError:
            return Canary.CLOSED
    expected = _HTTP_ANSWER if http else _ZMTP_SIGNATURE
    return Canary.PASSES if first.startswith(expected) else Canary.CLOSED
