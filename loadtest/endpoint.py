"""A server's address, from a URL."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from loadtest.errors import UsageError


class Endpoint(msgspec.Struct, frozen=True):
    """``prefix``: path in front of every route, without a slash at its end. ``api_key``: sent as Bearer."""

    host: str
    port: int
    prefix: str = ""
    api_key: str | None = None

    def post(self, route: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
        """A whole HTTP/1.1 request, for a connection that serves nothing else."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [
            f"POST {self.prefix}{route} HTTP/1.1",
            f"Host: {host}:{self.port}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *([f"Authorization: Bearer {self.api_key}"] if self.api_key else []),
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def parse_endpoint(flag: str, url: str, api_key: str | None = None) -> Endpoint:
    """Raises `UsageError` for anything but http://HOST[:PORT][/PREFIX]."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(flag, f"{url!r}: {error}; write http://HOST:PORT") from error
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(
            flag, f"{url!r} is not usable; write http://HOST:PORT (TLS is not supported)"
        )
    return Endpoint(parts.hostname, port or 80, parts.path.rstrip("/"), api_key)
