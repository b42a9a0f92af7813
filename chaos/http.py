"""One bounded HTTP call on a local socket. No proxy variables, no redirects, no pool."""

from __future__ import annotations

import http.client

from msgspec import Struct

from chaos.links import Endpoint


class Reply(Struct, frozen=True, kw_only=True):
    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def fetch(
    endpoint: Endpoint,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    timeout_s: float = 1.0,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Raises `OSError` (TimeoutError included) when nobody answers, `HTTPException` on a broken answer.

    ``timeout_s`` bounds each wait on the socket, and so a server that is silent.
    """
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    content = {"Content-Type": "application/json"} if body is not None else {}
    try:
        connection.request(method, path, body=body, headers={**content, **(headers or {})})
        answer = connection.getresponse()
        return Reply(status=answer.status, body=answer.read())
    finally:
        connection.close()


def is_ok(endpoint: Endpoint, path: str, timeout_s: float = 1.0) -> bool:
    """Whether a GET is answered with 2xx in time; silence and errors are a plain no."""
    try:
        return fetch(endpoint, path, timeout_s=timeout_s).ok
    except (OSError, http.client.HTTPException):
        return False
