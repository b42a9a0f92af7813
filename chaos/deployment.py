"""What the runner and the faults need of a deployment, whoever started it."""

from __future__ import annotations

from typing import Protocol

from chaos.links import Endpoint, Link
from chaos.pairs import Pair
from chaos.toxiproxy.server import ToxiproxyServer


class Deployment(Protocol):
    """``workers`` are names in the order prefill, decode. All calls raise `ChaosError` on failure."""

    ready_within_s: float

    @property
    def workers(self) -> tuple[str, ...]: ...

    @property
    def links(self) -> tuple[Link, ...]: ...

    @property
    def toxiproxy(self) -> ToxiproxyServer: ...

    @property
    def router(self) -> Endpoint: ...

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every prefill with every decode worker."""
        ...

    def start(self) -> None:
        """Start everything and wait until it serves."""
        ...

    def stop(self) -> list[str]:
        """End everything; returns what is left. Never raises."""
        ...

    def check(self) -> None:
        """Raise `ProcessFailed` if something ended that nobody killed."""
        ...

    def worker_endpoint(self, worker: str) -> Endpoint: ...

    def worker_pid(self, worker: str) -> int: ...

    def worker_runs(self, worker: str) -> bool: ...

    def kill_worker(self, worker: str) -> None:
        """SIGKILL the worker and all its processes; returns when they are gone."""
        ...

    def restart_worker(self, worker: str) -> None:
        """Start it again on the same ports; returns when it has generated a token."""
        ...
