"""The typed adapter over the PyPI package toxiproxy-python: every call bounded, every toxic read back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar, cast

import msgspec
from toxiproxy.proxy import Proxy as PackageProxy

from chaos.errors import ReadBackMismatch, ToxiproxyError
from chaos.links import Endpoint
from chaos.toxiproxy.bounded import BoundedConsumer, talking_to
from chaos.toxiproxy.model import Proxy, ProxySpec, Toxic


class _PackageProxy(Protocol):
    """What we use of the package's untyped `Proxy`."""

    def add_toxic(self, **fields: object) -> None: ...
    def destroy_toxic(self, toxic_name: str) -> bool: ...
    def disable(self) -> None: ...


class _PackageProxyClass(Protocol):
    def __call__(self, **fields: object) -> _PackageProxy: ...


_package_proxy = cast(_PackageProxyClass, PackageProxy)
RecordT = TypeVar("RecordT")


class ToxiproxyClient:
    """Control of one server. Raises `ToxiproxyError` and nothing else."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 1.0) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s

    def populate(self, specs: Iterable[ProxySpec]) -> None:
        """Create or keep exactly these proxies; a changed one is made anew (which cuts its links)."""
        for spec in specs:
            with talking_to(self.endpoint, self.timeout_s):
                BoundedConsumer.post("/populate", json=[msgspec.to_builtins(spec)])
            held = self.proxy(spec.name)
            if (held.listen, held.upstream) != (spec.listen, spec.upstream):
                raise ReadBackMismatch(
                    f"proxy {spec.name}: asked for {spec}, the server has {held}"
                )

    def proxies(self) -> dict[str, Proxy]:
        """Every proxy by name, with its toxics."""
        with talking_to(self.endpoint, self.timeout_s):
            body = BoundedConsumer.get("/proxies").content
        return _decode(body, dict[str, Proxy])

    def proxy(self, name: str) -> Proxy:
        with talking_to(self.endpoint, self.timeout_s):
            body = BoundedConsumer.get(f"/proxies/{name}").content
        return _decode(body, Proxy)

    def add_toxic(self, proxy: str, toxic: Toxic) -> None:
        """Add and read back. Raises `ReadBackMismatch` if the server holds anything else (a misspelt
        attribute is accepted silently and does nothing); the bad toxic is then removed."""
        with talking_to(self.endpoint, self.timeout_s):
            _handle(proxy).add_toxic(**msgspec.to_builtins(toxic))
        held = {entry.name: entry for entry in self.proxy(proxy).toxics}.get(toxic.name)
        if held is None or not _same(held, toxic):
            if held is not None:
                self.remove_toxic(proxy, toxic.name)
            raise ReadBackMismatch(f"{proxy}: asked for {toxic}, the server has {held}")

    def disable(self, proxy: str) -> None:
        """Close its connections and stop listening; read back."""
        with talking_to(self.endpoint, self.timeout_s):
            _handle(proxy).disable()
        if self.proxy(proxy).enabled:
            raise ReadBackMismatch(f"{proxy}: asked to be disabled, the server says enabled")

    def remove_toxic(self, proxy: str, name: str) -> None:
        with talking_to(self.endpoint, self.timeout_s):
            _handle(proxy).destroy_toxic(name)


def _handle(name: str) -> _PackageProxy:
    """The package's own object for a proxy, without its listing of every proxy (which can hang)."""
    return _package_proxy(name=name, upstream="", listen="", enabled=True)


def _decode(body: bytes, kind: type[RecordT]) -> RecordT:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ToxiproxyError(f"not an answer of toxiproxy: {body[:80]!r}") from error


def _same(held: Toxic, asked: Toxic) -> bool:
    """The server fills in attributes that were not given with 0; those must be 0, all others equal."""
    known = set(held.attributes) >= set(asked.attributes)
    values = all(held.attributes[key] == asked.attributes.get(key, 0) for key in held.attributes)
    head = (held.type, held.stream, held.toxicity) == (asked.type, asked.stream, asked.toxicity)
    return known and values and head
