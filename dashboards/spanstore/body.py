"""Inflate a request body without letting it grow past the bound."""

from __future__ import annotations

import zlib

from dashboards.errors import BodyRefused

MAX_BODY_BYTES = 32 * 1024 * 1024
_GZIP_WBITS = 31


def inflate(raw: bytes, encoding: str) -> bytes:
    """The body as sent before ``Content-Encoding``. Raises `BodyRefused` 400, 413 or 415."""
    match encoding.strip().lower():
        case "" | "identity":
            return raw
        case "gzip" | "x-gzip":
            return _gunzip(raw)
        case other:
            raise BodyRefused(415, f"Content-Encoding {other!r} is not taken; send gzip or none")


def _gunzip(raw: bytes) -> bytes:
    inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
    try:
        body = inflater.decompress(raw, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise BodyRefused(400, f"not gzip: {error}") from error
    if len(body) > MAX_BODY_BYTES:
        raise BodyRefused(
            413, f"the body inflates past {MAX_BODY_BYTES} bytes; send smaller batches"
        )
    if not inflater.eof or inflater.unused_data:
        raise BodyRefused(400, "not gzip: cut short, or bytes after its end")
    return body
