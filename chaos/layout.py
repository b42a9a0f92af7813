"""Plans a local deployment: workers, links and ports, before anything starts."""

from __future__ import annotations

from msgspec import Struct

from chaos.codes import LinkKind
from chaos.links import Endpoint, Link, matches_any, pair_names
from chaos.pairs import Pair
from chaos.ports import PortPool
from chaos.scenario import worker_names
from chaos.spec import DeploymentSpec
from chaos.worker import Worker


class Layout(Struct, frozen=True, kw_only=True):
    """Who listens where. ``control_worker``: the unified worker of the control run."""

    workers: tuple[Worker, ...]
    links: tuple[Link, ...]
    bypassed: frozenset[str]
    control_worker: Worker
    toxiproxy: Endpoint
    router: Endpoint
    router_metrics: Endpoint
    spanstore: Endpoint

    def worker(self, name: str) -> Worker:
        return next(worker for worker in self.workers if worker.name == name)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every prefill with every decode worker, as the router could choose them."""
        return tuple(
            Pair(
                prefill=p.name,
                decode=d.name,
                prefill_http=p.http,
                decode_http=d.http,
                bootstrap=p.bootstrap,
            )
            for p in self.workers
            if p.bootstrap is not None
            for d in self.workers
            if d.kv is not None
        )

    def dials(self, name: str) -> list[Link]:
        """Links that this worker opens through a proxy."""
        return [
            link
            for link in self.links
            if link.name.dialer == name and str(link) not in self.bypassed
        ]


def plan(spec: DeploymentSpec, ports: PortPool, router_port: int | None = None) -> Layout:
    """Choose a port for everything that listens; raises `UsageError` if ``router_port`` is taken."""
    router = ports.take() if router_port is None else ports.take_this("--port", router_port)
    prefill_names, decode_names = worker_names(spec)
    prefill = {
        name: Worker(
            name=name,
            role="prefill",
            http=ports.take(),
            bootstrap=ports.take(),
            control=ports.take(),
        )
        for name in prefill_names
    }
    decode = {
        name: Worker(name=name, role="decode", http=ports.take(), kv=ports.take())
        for name in decode_names
    }
    links = []
    for name in pair_names(prefill_names, decode_names):
        end = decode[name.decode] if name.kind is LinkKind.KV else prefill[name.prefill]
        links.append(Link(name=name, listen=ports.take(), upstream=end.address_of(name.kind)))
    return Layout(
        workers=(*prefill.values(), *decode.values()),
        links=tuple(links),
        bypassed=frozenset(str(link) for link in links if matches_any(spec.bypass, link.name)),
        control_worker=Worker(name="u0", role="unified", http=ports.take()),
        toxiproxy=ports.take(),
        router=router,
        router_metrics=ports.take(),
        spanstore=ports.take(),
    )
