"""The toxiproxy server of a run: started, watched, killed and started again on the same ports."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.errors import ProcessFailed, ToxiproxyError
from chaos.links import Endpoint, Link
from chaos.process import Launcher, ManagedProcess
from chaos.toxiproxy.adapter import ToxiproxyClient
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.model import ProxySpec
from chaos.toxiproxy.visits import visits

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
        self._canary_ports: set[int] = set()

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
        self._create_all()

    def respawn(self) -> None:
        """SIGKILL, start again on the same ports, with the same proxies and no toxics."""
        self.kill()
        self.start()

    def note_canary(self, port: int) -> None:
        """We connected from there ourselves: not a visit of a worker."""
        self._canary_ports.add(port)

    def num_visits(self, link: Link) -> int:
        """Connections of workers that this link's proxy has taken in since the run began, by its log."""
        if self._process is None:
            return 0
        return visits(self._process.log, link.proxy, self._canary_ports)

    def end(self) -> None:
        """SIGKILL, and no more than that: with it goes every toxic."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            self._process.wait(_STARTS_WITHIN_S)

    def kill(self) -> None:
        """End it and what it may have left behind."""
        if self._process is not None:
            self._process.kill()
            self._launcher.ended(self._process)
            self._launcher.forget(self._process)
            self._process = None

    def _create_all(self) -> None:
        """One by one: /populate stops at the first port that is taken, and the rest would be missing."""
        problems = []
        for link in self.links:
            try:
                self.emergency.create(proxy_spec(link))
            except ToxiproxyError as error:
                problems.append(str(error).strip())
        if problems:
            raise ToxiproxyError("; ".join(problems))

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
