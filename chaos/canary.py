"""A canary: a short connection of our own through a link's proxy, to see whether bytes get through.

::

    zmq    connect, hear the peer's greeting     bytes come down
           say ours, hear the rest of it         bytes go up
    HTTP   ask, hear the answer                  both at once

A zmq peer greets on accept and goes on when it was greeted; the canary hangs up before the handshake
ends, or (``load_bytes``) is refused in it, so no peer state comes of it.
"""

from __future__ import annotations

import socket
import time
from enum import StrEnum

from msgspec import Struct

from chaos.codes import LinkKind
from chaos.links import Link

_SIGNATURE = b"\xff" + bytes(7) + b"\x01\x7f"
_HALF_GREETING = _SIGNATURE + b"\x03"
_GREETING = _HALF_GREETING + b"\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_HTTP_ANSWER = b"HTTP/1."
_QUESTION = b"GET /health HTTP/1.0\r\nHost: canary\r\nConnection: close\r\n"


class Canary(StrEnum):
    """What came back."""

    PASSES = "passes"
    SILENT = "silent"
    UNHEARD = "unheard"
    """The peer is heard and does not hear us."""
    CLOSED = "closed"
    REFUSED = "refused"


class Flight(Struct, frozen=True, kw_only=True):
    """``ms``: from the connection to the last byte heard, or to giving up. ``port``: its own end."""

    seen: Canary
    ms: float
    port: int = 0

    def __str__(self) -> str:
        return f"{self.seen} ({self.ms:.0f} ms)" if self.seen is Canary.PASSES else str(self.seen)


def send_canary(link: Link, wait_s: float = 0.3) -> Canary:
    """Connect to the link's proxy and wait for the peer's answers, each for ``wait_s``."""
    return fly_canary(link, wait_s).seen


def fly_canary(link: Link, wait_s: float = 0.3, load_bytes: int = 0) -> Flight:
    """``load_bytes``: carry so many bytes up, which a trickle makes slow."""
    try:
        connection = socket.create_connection((link.listen.host, link.listen.port), wait_s)
    except TimeoutError:
        return Flight(seen=Canary.SILENT, ms=wait_s * 1e3)
    except OSError:
        return Flight(seen=Canary.REFUSED, ms=0.0)
    begun = time.monotonic()
    with connection:
        port: int = connection.getsockname()[1]
        if link.name.kind is LinkKind.BOOTSTRAP:
            seen = _ask(connection, load_bytes)
        else:
            seen = _greet(connection, load_bytes)
        return Flight(seen=seen, ms=(time.monotonic() - begun) * 1e3, port=port)


def _ask(connection: socket.socket, load_bytes: int) -> Canary:
    lines = b"".join(b"X-Load: %s\r\n" % (b"x" * 1000) for _ in range(load_bytes // 1000))
    try:
        connection.sendall(_QUESTION + lines + b"\r\n")
        first = connection.recv(16)
    except TimeoutError:
        return Canary.SILENT
    except OSError:
        return Canary.CLOSED
    return Canary.PASSES if first.startswith(_HTTP_ANSWER) else Canary.CLOSED


def _greet(connection: socket.socket, load_bytes: int) -> Canary:
    if (heard := _hear(connection)) is not Canary.PASSES:
        return heard
    try:
        connection.sendall(_heavy_greeting(load_bytes) if load_bytes else _HALF_GREETING)
        answer = connection.recv(64)
        while load_bytes and answer:
            # It hangs up once it has read the whole handshake, whose socket type it does not know.
            answer = connection.recv(1024)
    except TimeoutError:
        return Canary.UNHEARD
    except OSError:
        return Canary.PASSES if load_bytes else Canary.CLOSED
    return Canary.PASSES if answer or load_bytes else Canary.CLOSED


def _hear(connection: socket.socket) -> Canary:
    try:
        first = connection.recv(len(_SIGNATURE))
    except TimeoutError:
        return Canary.SILENT
    except OSError:
        return Canary.CLOSED
    return Canary.PASSES if first.startswith(_SIGNATURE[:1]) else Canary.CLOSED


def _heavy_greeting(load_bytes: int) -> bytes:
    body = b"\x05READY"
    body += _property(b"X-Load", bytes(load_bytes)) + _property(b"Socket-Type", b"CANARY")
    return _GREETING + b"\x06" + len(body).to_bytes(8, "big") + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
