"""The toxiproxy server of a run: started, watched, killed and started again on the same ports."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from chaos.errors import ProcessFailed, ToxiproxyError
from chaos.links import Endpoint, Link
from chaos.process import Launcher, ManagedProcess
from chaos.toxiproxy.adapter import ToxiproxyClient
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.model import ProxySpec

_STARTS_WITHIN_S = 5.0


class ToxiproxyServer:
    """``links``: the proxies that it should hold, also after a respawn."""

    def __init__(
        self, binary: Path, control: Endpoint, launcher: Launcher, links: Sequence[Link] = ()
    ) -> None:
        self.control = control
        self.links = tuple(links)
        self.client = ToxiproxyClient(control)
        self.emergency = EmergencyClient(control)
        self._binary = binary
        self._launcher = launcher
        self._process: ManagedProcess | None = None

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        process = self._process
        return process.pid if process and process.returncode() is None else None

    def start(self) -> None:
        """Start, wait until the control API answers, create the proxies."""
        self._process = self._launcher.start(
            "toxiproxy",
            [str(self._binary), "-host", self.control.host, "-port", str(self.control.port)],
            ports=[self.control.port, *(link.listen.port for link in self.links)],
            environment={"LOG_LEVEL": "info"},
        )
        self._wait_until_it_answers(self._process)
        if self.links:
            self.emergency.populate([proxy_spec(link) for link in self.links])

    def respawn(self) -> None:
        """SIGKILL, start again on the same ports, with the same proxies and no toxics."""
        self.kill()
        self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._launcher.ended(self._process)
            self._launcher.forget(self._process)
            self._process = None

    def _wait_until_it_answers(self, process: ManagedProcess) -> None:
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < deadline:
            process.require_alive()
            try:
                self.emergency.proxies()
                return
            except ToxiproxyError:
                time.sleep(0.002)
        raise ProcessFailed(
            f"toxiproxy does not answer on {self.control} after {_STARTS_WITHIN_S:g} s:\n"
            f"{process.tail()}"
        )


def proxy_spec(link: Link) -> ProxySpec:
    return ProxySpec(name=link.proxy, listen=str(link.listen), upstream=str(link.upstream))
