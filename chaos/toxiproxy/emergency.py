"""The short way to toxiproxy's API, without the package: for healing when something already went wrong."""

from __future__ import annotations

import http.client
from typing import TypeVar

import msgspec

from chaos.errors import ToxiproxyDown, ToxiproxyError, ToxiproxyRefused, ToxiproxyTimeout
from chaos.http import fetch
from chaos.links import Endpoint
from chaos.toxiproxy.model import Proxy, ProxySpec

RecordT = TypeVar("RecordT")


class EmergencyClient:
    """Each call opens its own connection and waits ``timeout_s`` at most; safe from any thread."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 1.0) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s

    def within(self, timeout_s: float) -> EmergencyClient:
        """The same server, with another limit."""
        return EmergencyClient(self.endpoint, timeout_s)

    def proxies(self) -> dict[str, Proxy]:
        return self._decoded("/proxies", dict[str, Proxy])

    def proxy(self, name: str) -> Proxy:
        """One proxy. Answers even while another link hangs the listing."""
        return self._decoded(f"/proxies/{name}", Proxy)

    def open_toxic(self, proxy: str, toxic: str) -> None:
        """Let everything pass from now on, on open connections too (toxicity 0)."""
        path = f"/proxies/{proxy}/toxics/{toxic}"
        self._call("POST", path, b'{"toxicity": 0}', gone_is_fine=True)

    def remove_toxic(self, proxy: str, toxic: str) -> None:
        self._call("DELETE", f"/proxies/{proxy}/toxics/{toxic}", gone_is_fine=True)

    def delete(self, proxy: str) -> None:
        """Works in milliseconds even while a toxic call on that proxy hangs (measured)."""
        self._call("DELETE", f"/proxies/{proxy}", gone_is_fine=True)

    def create(self, spec: ProxySpec) -> None:
        self._call("POST", "/proxies", msgspec.json.encode(spec))

    def enable(self, proxy: str) -> None:
        """Refused with HTTP 500 if somebody took the port meanwhile."""
        self._call("POST", f"/proxies/{proxy}", b'{"enabled": true}')

    def disable(self, proxy: str) -> None:
        """Closes every connection; the port is free from then on."""
        self._call("POST", f"/proxies/{proxy}", b'{"enabled": false}')

    def populate(self, specs: list[ProxySpec]) -> None:
        self._call("POST", "/populate", msgspec.json.encode(specs))

    def _decoded(self, path: str, kind: type[RecordT]) -> RecordT:
        body = self._call("GET", path)
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise ToxiproxyError(f"not an answer of toxiproxy: {body[:80]!r}") from error

    def _call(
        self, method: str, path: str, body: bytes | None = None, gone_is_fine: bool = False
    ) -> bytes:
        call = f"{method} {path}"
        try:
            reply = fetch(self.endpoint, path, method=method, body=body, timeout_s=self.timeout_s)
        except TimeoutError as error:
            raise ToxiproxyTimeout(f"{call}: no answer within {self.timeout_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise ToxiproxyDown(f"{call}: nothing answers on {self.endpoint}") from error
        if reply.status == 404 and gone_is_fine:
            return reply.body
        if not reply.ok:
            raise ToxiproxyRefused(call, reply.status, reply.body.decode("utf-8", "replace"))
        return reply.body
