"""`TargetDeployment`: one that somebody else started, known by its target file alone.

It is asked, cut and healed; it is never started and never ended. Nothing of it is in `processes.jsonl`, so no
heal ends its processes either.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from chaos import listener
from chaos.attached import AttachedToxiproxy
from chaos.commands import run_command
from chaos.deployment import Deployment
from chaos.errors import ChaosError, ProcessFailed, ToxiproxyError, UsageError
from chaos.evidence_kinds import CONTROL_RUN, LEDGER, METRICS, SPANS
from chaos.freeze import freeze, thaw
from chaos.http import is_ok
from chaos.lease import Lease
from chaos.links import Endpoint, Link
from chaos.pairs import Pair
from chaos.proc import Identity
from chaos.scrape import WorkerLoad, scrape
from chaos.span_copy import copy_spans
from chaos.target import Target, TargetWorker, endpoint_of, link_name
from chaos.toxiproxy.clean import is_clean
from chaos.toxiproxy.server import proxy_spec
from chaos.undo import RunCommand, Undo

_NOBODY = Endpoint("127.0.0.1", 9)
_FLUSH_S = 2.0


class TargetDeployment(Deployment):
    """Raises `UsageError` where the file and what is there do not agree. ``logs``: output of commands.
    ``spans``: where a copy of its spans goes."""

    def __init__(self, target: Target, logs: Path, spans: Path) -> None:
        self.target = target
        self.ready_within_s = target.ready_within_s
        self._logs = logs
        self._spans = spans
        self._lease = Lease(target.router)
        self._by_name = {worker.name: worker for worker in target.workers}
        toxiproxy, log = target.toxiproxy, None
        if toxiproxy is not None and toxiproxy.log is not None:
            log = Path(toxiproxy.log)
        control = endpoint_of(toxiproxy.control) if toxiproxy else _NOBODY
        self._toxiproxy = AttachedToxiproxy(control, (), log)
        self._toxiproxy.links = tuple(self._find(link.name, link.proxy) for link in target.links)

    @property
    def workers(self) -> tuple[str, ...]:
        prefill, decode = self.target.named("prefill"), self.target.named("decode")
        return tuple(worker.name for worker in (*prefill, *decode))

    @property
    def links(self) -> tuple[Link, ...]:
        return self._toxiproxy.links

    @property
    def toxiproxy(self) -> AttachedToxiproxy:
        return self._toxiproxy

    @property
    def router(self) -> Endpoint:
        return endpoint_of(self.target.router)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Those that can be asked past the router: where ``bootstrap`` is given."""
        return tuple(
            Pair(
                prefill=p.name,
                decode=d.name,
                prefill_http=endpoint_of(p.url),
                decode_http=endpoint_of(d.url),
                bootstrap=endpoint_of(p.bootstrap),
            )
            for p in self.target.named("prefill")
            if p.bootstrap is not None
            for d in self.target.named("decode")
        )

    @property
    def cannot_show(self) -> tuple[str, ...]:
        """Kinds of evidence that this target has no way to give."""
        target = self.target
        blind = {
            SPANS: target.spans is None,
            LEDGER: not target.knows.has_ledger,
            CONTROL_RUN: target.control_run is None,
            METRICS: False,
        }
        return tuple(kind for kind, is_blind in blind.items() if is_blind)

    @property
    def traces_url(self) -> str | None:
        return self.target.traces

    @property
    def abort_endpoints(self) -> dict[str, Endpoint]:
        """Workers that can abort by rid."""
        if self.target.knows.abort_path is None:
            return {}
        return {name: self.worker_endpoint(name) for name in self.workers}

    def attach(self) -> None:
        """Take the lease. Raises `UsageError` if a proxy is not clean: whose toxics are these?"""
        self._lease.take()
        for link in self.links:
            if not is_clean(self._toxiproxy.client.proxy(link.proxy), proxy_spec(link)):
                raise UsageError(
                    f"proxy {link.proxy} of {link} is disabled or has toxics already; clean it first"
                )

    def start(self) -> None:
        """Wait until everything answers."""
        for name in self.workers:
            self._wait_for(name, self.target.knows.health_path)

    def stop(self) -> list[str]:
        """Ends nothing but our lease; keeps a copy of the spans. Returns what is left of our faults."""
        self._keep_spans()
        left = [f"proxy {link.proxy} of {link}" for link in self.links if not self._clean(link)]
        self._lease.give_back()
        return left

    def check(self) -> None:
        """A worker may be down for reasons of its own; guards and checks see what it does to requests."""

    def start_control(self) -> None:
        """Somebody else did."""

    def wait_control(self) -> Endpoint:
        """Only where there is one."""
        if self.target.control_run is None:
            raise ChaosError("this target has no control_run")
        return endpoint_of(self.target.control_run)

    def load_of(self, worker: str) -> WorkerLoad:
        """From its /metrics. Raises `ChaosError`."""
        known = self._by_name[worker]
        return scrape(known.metrics or f"{known.url}/metrics", self.target.knows.metrics)

    def _keep_spans(self) -> None:
        """Without a copy the checks that need spans are unknown, and the run cannot pass."""
        if self.target.spans is not None and self._spans.parent.exists():
            time.sleep(_FLUSH_S)
            with contextlib.suppress(ChaosError):
                copy_spans(Path(self.target.spans), self._spans)

    def worker_endpoint(self, worker: str) -> Endpoint:
        return endpoint_of(self._by_name[worker].url)

    def worker_pid(self, worker: str) -> int:
        """0: not a process of this machine and user."""
        return listener.pid_of(self.worker_endpoint(worker)) or 0

    def worker_runs(self, worker: str) -> bool:
        """Whether it answers at all; a worker elsewhere cannot be looked at otherwise."""
        return bool(self.worker_pid(worker)) or is_ok(
            self.worker_endpoint(worker), self.target.knows.health_path, 0.3
        )

    def kill_worker(self, worker: str) -> None:
        known = self._by_name[worker]
        self._run(f"kill-{worker}", known, known.kill)
        deadline = time.monotonic() + 5.0
        while self.worker_runs(worker):
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{worker} still answers 5 s after its kill command")
            time.sleep(0.02)

    def restart_worker(self, worker: str) -> None:
        known = self._by_name[worker]
        if not self.worker_runs(worker):
            self._run(f"restart-{worker}", known, known.restart)
        self._wait_for(worker, self.target.knows.generates_path)

    def undo_of_kill(self, worker: str) -> tuple[Undo, ...]:
        known = self._by_name[worker]
        if known.restart is None:
            return ()
        return (RunCommand(argv=known.restart, unless_answers=endpoint_of(known.url)),)

    def stop_worker(self, worker: str) -> None:
        raise ChaosError(f"{worker}: a target file has no command that stops a worker gently")

    def worker_processes(self, worker: str) -> tuple[Identity, ...]:
        pid = self.worker_pid(worker) if self._by_name[worker].pausable else 0
        return listener.family(pid) if pid else ()

    def pause_worker(self, worker: str) -> None:
        freeze(self.worker_processes(worker))

    def resume_worker(self, worker: str) -> None:
        thaw(self.worker_processes(worker))

    def collector_processes(self) -> tuple[Identity, ...]:
        return ()

    def stop_collector(self) -> None:
        raise ChaosError("the span store of a target is not ours to stop")

    def start_collector(self) -> None:
        """It was never stopped."""

    def collector_answers(self) -> bool:
        return self.target.traces is not None

    def _find(self, name: str, proxy: str) -> Link:
        try:
            held = self._toxiproxy.client.proxy(proxy)
        except ToxiproxyError as error:
            raise UsageError(f"links: {name}: no proxy {proxy}: {error}") from error
        return Link(
            name=link_name(name),
            listen=endpoint_of(held.listen),
            upstream=endpoint_of(held.upstream),
            proxy_name=proxy,
        )

    def _clean(self, link: Link) -> bool:
        try:
            return is_clean(self._toxiproxy.emergency.proxy(link.proxy), proxy_spec(link))
        except ToxiproxyError:
            return False

    def _run(self, name: str, worker: TargetWorker, argv: tuple[str, ...] | None) -> None:
        if argv is None:
            raise ChaosError(f"the target file has no kill and restart for {worker.name}")
        run_command(argv, self._logs / f"{name}.log")

    def _wait_for(self, worker: str, path: str) -> None:
        """Not cut short by the brake: this is part of a heal."""
        deadline = time.monotonic() + self.ready_within_s
        endpoint = self.worker_endpoint(worker)
        while not is_ok(endpoint, path, timeout_s=2.0):
            if time.monotonic() > deadline:
                raise ProcessFailed(
                    f"{worker} does not answer {path} on {endpoint} within {self.ready_within_s:g} s"
                )
            time.sleep(0.1)
