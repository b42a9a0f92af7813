"""A toxiproxy server that somebody else started: used, read, freed of our own toxics, never ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos import listener
from chaos.errors import ToxiproxyError
from chaos.links import Endpoint, Link
from chaos.toxiproxy.adapter import ToxiproxyClient
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.toxiproxy.visits import visits


class AttachedToxiproxy(ToxiproxyServer):
    """``log`` None: who visited a proxy cannot be told afterwards."""

    def __init__(self, control: Endpoint, links: Sequence[Link], log: Path | None) -> None:
        # Not the base's own: that one holds a process of this run.
        self.control = control
        self.links = tuple(links)
        self.client = ToxiproxyClient(control)
        self.emergency = EmergencyClient(control)
        self._log = log
        self._canary_ports: set[int] = set()
        self._visits_before: dict[str, int] = {}

    @property
    def pid(self) -> int | None:
        """Whoever listens on the control port here; None if it runs elsewhere or belongs to another user."""
        return listener.pid_of(self.control)

    def note_canary(self, port: int) -> None:
        self._canary_ports.add(port)

    def num_visits(self, link: Link) -> int:
        """Since we first looked: its log is older than this run."""
        if self._log is None:
            return 0
        now = visits(self._log, link.proxy, self._canary_ports)
        return now - self._visits_before.setdefault(link.proxy, now)

    def respawn(self) -> None:
        raise ToxiproxyError("this toxiproxy is somebody else's: it is not killed")

    def end(self) -> None:
        """Its proxies carry links that are alive."""
        raise ToxiproxyError("this toxiproxy is somebody else's: it is not killed")
