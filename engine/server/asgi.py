"""Small ASGI helpers: a bounded body, a JSON answer, and `SseWriter`."""

from __future__ import annotations

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import BodyTooLarge
from engine.server.answers import ErrorBody

MAX_BODY_BYTES = 8 * 1024 * 1024


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The request body. Raises `BodyTooLarge`, and `ClientDisconnect` if the client left."""
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def header(scope: Scope, name: bytes) -> str | None:
    """A request header by its lower-case name."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def json_response(body: msgspec.Struct, status: int = 200) -> Response:
    """A struct as JSON."""
    return raw_json_response(msgspec.json.encode(body), status)


def raw_json_response(body: bytes, status: int = 200) -> Response:
    """JSON text as it is."""
    return Response(body, status_code=status, media_type="application/json")


def error_response(body: ErrorBody) -> Response:
    """An error with the status it names; a 503 may be tried again in a second."""
    response = json_response(body, body.error.code)
    if body.error.code == 503:
        response.headers["retry-after"] = "1"
    return response


def _too_large() -> BodyTooLarge:
    return BodyTooLarge("", f"the body is over {MAX_BODY_BYTES} bytes; send a shorter prompt")


class SseWriter:
    """Server-sent events. The headers go out with the first event, not before."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def event(self, body: msgspec.Struct) -> None:
        """One ``data:`` event."""
        await self._write(b"data: " + msgspec.json.encode(body) + b"\n\n", more=True)

    async def done(self) -> None:
        """The closing ``data: [DONE]``."""
        await self._write(b"data: [DONE]\n\n", more=False)

    async def _write(self, chunk: bytes, *, more: bool) -> None:
        if not self.started:
            self.started = True
            await self._send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", b"text/event-stream; charset=utf-8"),
                        (b"cache-control", b"no-cache"),
                    ],
                }
            )
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})
