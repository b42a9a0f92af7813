"""`bind`: a listening socket, or an error that names the flag."""

from __future__ import annotations

import ipaddress
import socket

from engine.errors import UsageError

BACKLOG = 2048


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``: every address that it stands for is a loopback one."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


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
