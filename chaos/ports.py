"""Free TCP ports below the ephemeral range.

A port above 32767 may be taken by any outgoing connection while its owner restarts (or while a proxy is
disabled), so all ports of a run lie below. Each is held by a bound socket until its owner starts.
"""

from __future__ import annotations

import random
import socket

from chaos.errors import ChaosError, UsageError
from chaos.links import Endpoint

_FIRST, _LAST = 18000, 32000


class PortPool:
    """Hands out ports of ``host`` that nobody has; each stays reserved until `release`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._held: dict[int, socket.socket] = {}
        self._random = random.Random()

    def take(self) -> Endpoint:
        """Reserve one port. Raises `ChaosError` if none is free."""
        for _ in range(500):
            port = self._random.randrange(_FIRST, _LAST)
            if port in self._held:
                continue
            holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                holder.bind((self.host, port))
            except OSError:
                holder.close()
                continue
            self._held[port] = holder
            return Endpoint(self.host, port)
        raise ChaosError(f"no free port on {self.host} between {_FIRST} and {_LAST}")

    def take_this(self, flag: str, port: int) -> Endpoint:
        """Reserve a port that the user wants. Raises `UsageError` naming ``flag`` if somebody has it."""
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            holder.bind((self.host, port))
        except OSError as error:
            holder.close()
            raise UsageError(
                f"{flag} {port}: cannot listen on {self.host}:{port} ({error.strerror}); choose another"
            ) from error
        self._held[port] = holder
        return Endpoint(self.host, port)

    def release(self, *endpoints: Endpoint) -> None:
        """Let go, right before the owner starts."""
        for endpoint in endpoints:
            holder = self._held.pop(endpoint.port, None)
            if holder is not None:
                holder.close()

    def close(self) -> None:
        """Let go of every port that was never used."""
        for holder in self._held.values():
            holder.close()
        self._held.clear()
