"""Who came through a proxy: its log has a line for each connection that it took in.

Its own counters move only when a connection ends, and short ones are gone before anybody looks.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import msgspec

_ACCEPTED = b'"Accepted client"'


class _Line(msgspec.Struct, frozen=True):
    """``client``: host:port of who connected."""

    name: str = ""
    client: str = ""


_DECODER = msgspec.json.Decoder(_Line)


def visits(log: Path, proxy: str, except_ports: Container[int]) -> int:
    """Connections that ``proxy`` has taken in, but for those from ``except_ports`` (our own)."""
    try:
        lines = log.read_bytes().splitlines()
    except OSError:
        return 0
    clients = (_client(line, proxy) for line in lines if _ACCEPTED in line)
    return sum(port is not None and port not in except_ports for port in clients)


def _client(line: bytes, proxy: str) -> int | None:
    """The port that the line's client came from; None if it came to another proxy."""
    try:
        entry = _DECODER.decode(line)
    except msgspec.DecodeError:
        return None
    port = entry.client.rpartition(":")[2]
    return int(port) if entry.name == proxy and port.isdigit() else None
