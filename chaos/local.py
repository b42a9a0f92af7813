"""A whole deployment on this machine: toxiproxy, span store, workers, router, each on a free port."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from chaos.deployment import Deployment
from chaos.errors import ProcessFailed
from chaos.freeze import freeze, thaw
from chaos.http import is_ok
from chaos.interrupt import Brake
from chaos.layout import Layout, plan
from chaos.links import Endpoint, Link
from chaos.log_cap import LogCap
from chaos.pairs import Pair
from chaos.ports import PortPool
from chaos.presets import PRESETS
from chaos.proc import Identity
from chaos.process import Launcher, ManagedProcess
from chaos.scrape import WorkerLoad, scrape
from chaos.spec import DeploymentSpec
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.undo import Undo
from chaos.worker import (
    ENVIRONMENT,
    ROUTER_ENVIRONMENT,
    Worker,
    router_argv,
    severance_argv,
    worker_argv,
)

_HOST = "127.0.0.1"
_COLLECTOR = "spanstore"
_GRACE_S = 10.0


class LocalOptions(Struct, frozen=True, kw_only=True):
    """What a scenario does not say. ``forward``: OTLP endpoint that gets every span too. ``max_spans``: the
    span store forgets the oldest beyond so many; None keeps all, as the oracle needs them."""

    router_port: int | None = None
    forward: str | None = None
    max_spans: int | None = None
    regression: str | None = None


_DEFAULTS = LocalOptions()


class LocalDeployment(Deployment):
    """``brake``: pulled, it ends every wait. ``tell`` hears what is ready. Nothing runs before `start`."""

    def __init__(
        self,
        spec: DeploymentSpec,
        launcher: Launcher,
        toxiproxy_binary: Path,
        spans_db: Path,
        brake: Brake,
        options: LocalOptions = _DEFAULTS,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.spec = spec
        self.ready_within_s = spec.ready_within_s
        self._ports = PortPool(_HOST)
        self.layout: Layout = plan(spec, self._ports, options.router_port)
        self._launcher = launcher
        self._spans_db = spans_db
        self._brake = brake
        self._options = options
        self._tell = tell
        self._log_cap = LogCap(launcher.logs)
        self._running: dict[str, ManagedProcess] = {}
        self._toxiproxy = ToxiproxyServer(
            toxiproxy_binary, self.layout.toxiproxy, launcher, self.layout.links
        )

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(worker.name for worker in self.layout.workers)

    @property
    def links(self) -> tuple[Link, ...]:
        return self.layout.links

    @property
    def toxiproxy(self) -> ToxiproxyServer:
        return self._toxiproxy

    @property
    def router(self) -> Endpoint:
        return self.layout.router

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self.layout.pairs

    @property
    def cannot_show(self) -> tuple[str, ...]:
        return ()

    @property
    def abort_endpoints(self) -> dict[str, Endpoint]:
        return {name: self.worker_endpoint(name) for name in self.workers}

    def load_of(self, worker: str) -> WorkerLoad:
        return scrape(
            f"http://{self.worker_endpoint(worker)}/metrics", PRESETS["severance"].metrics
        )

    @property
    def spans_db(self) -> Path:
        """SQLite file of the span store (`dashboards.spans`)."""
        return self._spans_db

    @property
    def traces_url(self) -> str:
        return f"http://{self.layout.spanstore}/v1/traces"

    def start(self) -> None:
        """Workers and span store load side by side; the router starts when the workers answer."""
        self._ports.release(self.layout.toxiproxy, *(link.listen for link in self.links))
        self._toxiproxy.start()
        self._log_cap.start()
        self._start_spanstore()
        for worker in self.layout.workers:
            self._start_worker(worker)
        self._wait_ready(
            {"spanstore": (self.layout.spanstore, "/health")}
            | {worker.name: (worker.http, "/health") for worker in self.layout.workers}
        )
        self._start_router()
        self._wait_ready({"router": (self.router, "/health")})

    def start_control(self) -> None:
        """Start the unified worker of the control run; `wait_control` waits for it."""
        self._start_worker(self.layout.control_worker)

    def wait_control(self) -> Endpoint:
        worker = self.layout.control_worker
        self._wait_ready({worker.name: (worker.http, "/health")})
        return worker.http

    def stop(self) -> list[str]:
        """Router, workers, span store (which flushes), toxiproxy; then whatever else was started."""
        self._ports.close()
        serving = ("router", *self.workers, self.layout.control_worker.name)
        left: list[str] = []
        for names in (serving, ("spanstore",)):
            processes = [self._running.pop(name) for name in names if name in self._running]
            left += self._launcher.stop_together(processes)
        left += self._launcher.stop_all()
        self._log_cap.stop()
        return left

    def check(self) -> None:
        for process in self._running.values():
            process.require_alive()

    def ended(self) -> list[ManagedProcess]:
        """Programs that ended though nobody here ended them."""
        return [one for one in self._launcher.processes if one.returncode() is not None]

    def processes(self) -> list[ManagedProcess]:
        """Every program of the deployment, in the order of their start."""
        return list(self._launcher.processes)

    def worker_endpoint(self, worker: str) -> Endpoint:
        return self.layout.worker(worker).http

    def worker_pid(self, worker: str) -> int:
        return self._running[worker].pid

    def worker_runs(self, worker: str) -> bool:
        process = self._running.get(worker)
        return process is not None and process.returncode() is None

    def kill_worker(self, worker: str) -> None:
        process = self._running.pop(worker)
        left = process.kill()
        if left:
            raise ProcessFailed(f"worker {worker}: pid {left[0].pid} survived SIGKILL")
        self._launcher.ended(process)
        self._launcher.forget(process)

    def undo_of_kill(self, worker: str) -> tuple[Undo, ...]:
        return ()

    def stop_worker(self, worker: str) -> None:
        self._end(worker)

    def worker_processes(self, worker: str) -> tuple[Identity, ...]:
        process = self._running.get(worker)
        return tuple(process.members()) if process else ()

    def pause_worker(self, worker: str) -> None:
        freeze(self.worker_processes(worker))

    def resume_worker(self, worker: str) -> None:
        thaw(self.worker_processes(worker))

    def collector_processes(self) -> tuple[Identity, ...]:
        return self.worker_processes(_COLLECTOR)

    def stop_collector(self) -> None:
        self._end(_COLLECTOR)

    def start_collector(self) -> None:
        if not self.worker_runs(_COLLECTOR):
            self._start_spanstore()
        self._wait_ready({_COLLECTOR: (self.layout.spanstore, "/health")}, shielded=True)

    def collector_answers(self) -> bool:
        return is_ok(self.layout.spanstore, "/health", timeout_s=0.3)

    def _end(self, name: str) -> None:
        """Take it out first: `check` must not find it ended."""
        left = self._launcher.stop(self._running.pop(name), _GRACE_S)
        if left:
            raise ProcessFailed(f"{name}: {left[0]} survived SIGKILL")

    def restart_worker(self, worker: str) -> None:
        plan_of_it = self.layout.worker(worker)
        if not self.worker_runs(worker):
            self._start_worker(plan_of_it)
        self._wait_ready({worker: (plan_of_it.http, "/health_generate")}, shielded=True)

    def _start_spanstore(self) -> None:
        endpoint = self.layout.spanstore
        self._ports.release(endpoint)
        command = ["spanstore", "--db", str(self._spans_db)]
        command += ["--host", endpoint.host, "--port", str(endpoint.port)]
        if self._options.forward is not None:
            command += ["--forward", self._options.forward]
        if self._options.max_spans is not None:
            command += ["--max-spans", str(self._options.max_spans)]
        self._run("spanstore", severance_argv(command), [endpoint])

    def _start_worker(self, worker: Worker) -> None:
        self._ports.release(*worker.endpoints)
        argv = worker_argv(
            worker,
            self.spec.worker,
            self.layout.dials(worker.name),
            self.layout.spanstore,
            self._options.regression if worker.role != "unified" else None,
        )
        self._run(worker.name, argv, worker.endpoints, nice=self.spec.worker.nice)

    def _start_router(self) -> None:
        self._ports.release(self.router, self.layout.router_metrics)
        argv = router_argv(
            self.router, self.layout.router_metrics, self.spec.router, self.layout.workers
        )
        self._run(
            "router",
            argv,
            [self.router, self.layout.router_metrics],
            environment=ROUTER_ENVIRONMENT,
        )

    def _run(
        self,
        name: str,
        argv: list[str],
        endpoints: Sequence[Endpoint],
        nice: int = 0,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        ports = [endpoint.port for endpoint in endpoints]
        self._running[name] = self._launcher.start(
            name, argv, ports=ports, nice=nice, environment=environment
        )

    def _wait_ready(self, wanted: dict[str, tuple[Endpoint, str]], shielded: bool = False) -> None:
        """Poll until all answer. A program that ends is an error at once, with its log's tail.

        ``shielded``: part of a heal, which a pulled brake must not cut short.
        """
        deadline = time.monotonic() + self.ready_within_s
        waiting = dict(wanted)
        while waiting:
            for name, (endpoint, path) in list(waiting.items()):
                self._running[name].require_alive()
                if is_ok(endpoint, path, timeout_s=2.0):
                    del waiting[name]
                    if self._tell is not None:
                        self._tell(f"{name} is ready")
            if waiting and time.monotonic() > deadline:
                name = next(iter(waiting))
                raise ProcessFailed(
                    f"{name} is not ready after {self.ready_within_s:g} s. Its log ends with:\n"
                    f"{self._running[name].tail()}"
                )
            if waiting and shielded:
                time.sleep(0.05)
            elif waiting:
                self._brake.sleep(0.05)
