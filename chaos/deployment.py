"""What the runner and the faults need of a deployment, whoever started it."""

from __future__ import annotations

from typing import Protocol

from chaos.links import Endpoint, Link
from chaos.pairs import Pair
from chaos.proc import Identity
from chaos.scrape import WorkerLoad
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.undo import Undo


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

    @property
    def cannot_show(self) -> tuple[str, ...]:
        """Kinds of evidence (`chaos.evidence_kinds`) that it has no way to give."""
        ...

    @property
    def traces_url(self) -> str | None:
        """OTLP over HTTP, in; None: nobody takes spans."""
        ...

    @property
    def abort_endpoints(self) -> dict[str, Endpoint]:
        """Workers that abort by rid, by name."""
        ...

    def load_of(self, worker: str) -> WorkerLoad:
        """From its metrics. Raises `ChaosError`."""
        ...

    def start_control(self) -> None:
        """Start the unified worker of the control run; `wait_control` waits for it."""
        ...

    def wait_control(self) -> Endpoint: ...

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

    def undo_of_kill(self, worker: str) -> tuple[Undo, ...]:
        """How somebody else brings a killed worker back; empty where it dies with the run anyway."""
        ...

    def stop_worker(self, worker: str) -> None:
        """SIGTERM, and SIGKILL if that does not end it; returns when it is gone."""
        ...

    def worker_processes(self, worker: str) -> tuple[Identity, ...]:
        """Every process of the worker, by exact identity."""
        ...

    def pause_worker(self, worker: str) -> None:
        """SIGSTOP every process of it; returns when all are stopped."""
        ...

    def resume_worker(self, worker: str) -> None:
        """SIGCONT every process of it. No-op for those that run."""
        ...

    def collector_processes(self) -> tuple[Identity, ...]:
        """The span store; empty while it does not run."""
        ...

    def stop_collector(self) -> None: ...

    def start_collector(self) -> None:
        """Start the span store again on its port and its file; returns when it answers."""
        ...

    def collector_answers(self) -> bool: ...
