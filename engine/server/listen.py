"""`bind`: a listening socket, or an error that names the flag."""

from __future__ import annotations

import socket

from engine.errors import UsageError

BACKLOG = 2048


def bind(flag: str, host: str, port: int) -> socket.socket:
    """A listening TCP socket. Raises `UsageError` naming ``flag`` if that address cannot be had."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(
            flag, f"cannot listen on {host}:{port} ({error.strerror or error}); choose another"
        ) from None
    return listener
