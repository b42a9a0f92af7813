"""`endpoints.json`: where everything of a `severance up` answers, for scripts; there once all serve."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.links import Link
from chaos.local import LocalDeployment

SCHEMA = "severance.endpoints/1"
FILE = "endpoints.json"


class WorkerEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """``role``: prefill | decode. ``url``: /generate, /abort_request, /ledger and the rest. ``pid``: the
    worker's HTTP process, whose child is the scheduler. ``bootstrap``: of a prefill, its rendezvous."""

    name: str
    role: str
    url: str
    pid: int
    log: str
    bootstrap: str | None = None


class LinkEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """``proxy``: path of the link's proxy in toxiproxy's API. ``listen``: what the dialing worker is told."""

    name: str
    prefill: str
    decode: str
    listen: str
    upstream: str
    proxy: str


class UpEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """``pid``: of `severance up` itself; SIGTERM ends it all. ``traces``: OTLP over HTTP, in."""

    schema: str
    run_id: str
    pid: int
    directory: str
    router: str
    toxiproxy: str
    spanstore: str
    traces: str
    workers: tuple[WorkerEndpoint, ...]
    links: tuple[LinkEndpoint, ...]


def describe(deployment: LocalDeployment, run_id: str, pid: int, directory: Path) -> UpEndpoints:
    """Of a deployment that serves."""
    layout = deployment.layout
    logs = {process.name: str(process.log) for process in deployment.processes()}
    toxiproxy = f"http://{layout.toxiproxy}"
    return UpEndpoints(
        schema=SCHEMA,
        run_id=run_id,
        pid=pid,
        directory=str(directory),
        router=f"http://{layout.router}",
        toxiproxy=toxiproxy,
        spanstore=f"http://{layout.spanstore}",
        traces=deployment.traces_url,
        workers=tuple(
            WorkerEndpoint(
                name=worker.name,
                role=worker.role,
                url=f"http://{worker.http}",
                pid=deployment.worker_pid(worker.name),
                log=logs[worker.name],
                bootstrap=str(worker.bootstrap) if worker.bootstrap else None,
            )
            for worker in layout.workers
        ),
        links=tuple(_link(link, toxiproxy) for link in layout.links),
    )


def write(endpoints: UpEndpoints, directory: Path) -> Path:
    """A reader sees no file or the whole one."""
    path = directory / FILE
    fresh = path.with_suffix(".json.new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(endpoints), indent=2) + b"\n")
    fresh.replace(path)
    return path


def read(path: Path) -> UpEndpoints:
    """Raises OSError or `msgspec.DecodeError`."""
    return msgspec.json.decode(path.read_bytes(), type=UpEndpoints)


def _link(link: Link, toxiproxy: str) -> LinkEndpoint:
    return LinkEndpoint(
        name=str(link),
        prefill=link.name.prefill,
        decode=link.name.decode,
        listen=str(link.listen),
        upstream=str(link.upstream),
        proxy=f"{toxiproxy}/proxies/{link.proxy}",
    )
