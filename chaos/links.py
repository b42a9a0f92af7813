"""Links between prefill and decode workers, by name; a proxy stands in each.

::

    bootstrap:p0-d0   d0 ──HTTP──▶ p0    rendezvous
    control:p0-d0     d0 ──zmq───▶ p0    metadata, acks, aborts, beats (both ways)
    kv:p0-d0          p0 ──zmq───▶ d0    pages
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from chaos.codes import LinkKind


class Endpoint(Struct, frozen=True):
    """A TCP address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class LinkName(Struct, frozen=True, kw_only=True):
    """Which link: its kind and its pair of workers."""

    kind: LinkKind
    prefill: str
    decode: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.prefill}-{self.decode}"

    @property
    def dialer(self) -> str:
        """The worker that opens the connection."""
        return self.prefill if self.kind is LinkKind.KV else self.decode


class Link(Struct, frozen=True, kw_only=True):
    """A link with its proxy: peers dial ``listen``, the proxy dials ``upstream``."""

    name: LinkName
    listen: Endpoint
    upstream: Endpoint
    proxy_name: str = ""
    """Where somebody else named it; ours is named after the link."""

    def __str__(self) -> str:
        return str(self.name)

    @property
    def proxy(self) -> str:
        """Name of the proxy; toxiproxy cannot quote slashes, and ours has none."""
        return self.proxy_name or str(self.name)


def pair_names(prefill: Iterable[str], decode: Sequence[str]) -> list[LinkName]:
    """Every link of every pair."""
    return [
        LinkName(kind=kind, prefill=p, decode=d)
        for p in prefill
        for d in decode
        for kind in LinkKind
    ]


def matches(pattern: str, name: LinkName) -> bool:
    """``kv:*`` matches every kv link, ``*:p0-d*`` every link of p0."""
    return fnmatchcase(str(name), pattern)


def matches_any(patterns: Iterable[str], name: LinkName) -> bool:
    return any(matches(pattern, name) for pattern in patterns)
