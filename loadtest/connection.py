"""One HTTP/1.1 exchange on a socket of its own, read without waiting for more than is there.

Nothing here buffers up to a block size: a read returns what the kernel has, so the first token is seen when
it arrives. Closing is explicit, so that a server sees a disconnect at once.
"""

from __future__ import annotations

import contextlib
from functools import cache
from socket import IPPROTO_TCP, SHUT_RDWR, SOCK_STREAM, TCP_NODELAY, AddressFamily
from typing import TYPE_CHECKING, Self

from geventhttpclient.response import HTTPParseError, HTTPResponse

from loadtest.endpoint import Endpoint
from loadtest.errors import ProtocolError

_READ_BYTES = 65536
_FIRST_FINAL_STATUS = 200

if TYPE_CHECKING:
    from socket import getaddrinfo
    from socket import socket as Socket
else:  # the twins that let other greenlets run
    from gevent.socket import getaddrinfo
    from gevent.socket import socket as Socket

_Address = tuple[AddressFamily, tuple[str | int | bytes, ...]]


@cache
def resolve(endpoint: Endpoint) -> _Address:
    """Look the host up, once: a lookup goes through a thread, which costs a request its due time.

    Raises OSError.
    """
    family, _, _, _, address = getaddrinfo(endpoint.host, endpoint.port, type=SOCK_STREAM)[0]
    return family, address


class _Response(HTTPResponse):
    """The C parser of geventhttpclient; keeps body bytes until they are taken."""

    def __init__(self) -> None:
        super().__init__("POST")
        self.unread = bytearray()

    def _on_body(self, buf: bytearray) -> None:
        self.unread += buf


class Connection:
    """``num_sent``: bytes that left. After `close` it is of no more use."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._socket: Socket | None = None
        self._response = _Response()
        self.num_sent = 0
        self.at_end = False

    def open(self) -> None:
        """Connect. Raises OSError."""
        family, address = resolve(self._endpoint)
        self._socket = Socket(family, SOCK_STREAM)
        self._socket.connect(address)
        self._socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send all of ``data``. Raises OSError."""
        view = memoryview(data)
        while view:
            num_taken = self._live().send(view)
            self.num_sent += num_taken
            view = view[num_taken:]

    def receive(self) -> None:
        """Wait for bytes. Sets ``at_end`` when the answer is over, or the server has gone.

        Raises OSError, and `ProtocolError` if what came is no HTTP.
        """
        data = self._live().recv(_READ_BYTES)
        self.at_end = not data
        try:
            self._response.feed(data)
        except HTTPParseError as error:
            if self.status is None and data:
                raise ProtocolError(f"the answer is not HTTP/1.1: {error}") from error
            self.at_end = True  # an end in mid-body: the transcript lacks its last event
        self.at_end = self.at_end or (self.status is not None and self._response.message_complete)

    def take(self) -> bytes:
        """Body bytes received and not yet taken."""
        body = bytes(self._response.unread)
        self._response.unread.clear()
        return body

    @property
    def status(self) -> int | None:
        """None until the headers of the final answer (not 1xx) are complete."""
        code = int(self._response.status_code) if self._response.headers_complete else 0
        return code if code >= _FIRST_FINAL_STATUS else None

    @property
    def is_stream(self) -> bool:
        """The body is server-sent events."""
        return str(self._response.get("content-type", "")).startswith("text/event-stream")

    def close(self) -> None:
        """Shut both directions and close, now. Safe to repeat."""
        socket, self._socket = self._socket, None
        if socket is None:
            return
        with contextlib.suppress(OSError):  # the peer was faster
            socket.shutdown(SHUT_RDWR)
        socket.close()

    def _live(self) -> Socket:
        if self._socket is None:
            raise ProtocolError("the connection is closed")
        return self._socket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
