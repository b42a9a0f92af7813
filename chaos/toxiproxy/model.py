"""Proxies and toxics as toxiproxy's API spells them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Stream = Literal["upstream", "downstream"]


class Toxic(Struct, frozen=True, kw_only=True):
    """``stream`` upstream: from the dialing peer to the other. toxicity is always 1 (the server draws it
    anew whenever a toxic is touched); attributes are whole numbers."""

    name: str
    type: str
    stream: Stream
    attributes: dict[str, int]
    toxicity: float = 1.0


class Proxy(Struct, frozen=True, kw_only=True):
    """One proxy of the server, with what is on it."""

    name: str
    listen: str
    upstream: str
    enabled: bool
    toxics: tuple[Toxic, ...] = ()


class ProxySpec(Struct, frozen=True, kw_only=True):
    """A proxy to create. ``listen`` and ``upstream`` are host:port."""

    name: str
    listen: str
    upstream: str
    enabled: bool = True
