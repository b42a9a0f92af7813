"""`target.yaml` of a `severance up`: with it the same deployment is a target like anybody's."""

from __future__ import annotations

from pathlib import Path

from chaos.endpoints import UpEndpoints, WorkerEndpoint
from chaos.target import Target, TargetLink, TargetToxiproxy, TargetWorker, endpoint_of

TARGET = "target.yaml"


def target_of(up: UpEndpoints) -> Target:
    """Workers can be paused; they have no kill command, since `up` does not start them again."""
    return Target(
        name=up.run_id,
        preset="severance",
        router=up.router,
        workers=tuple(_worker(worker) for worker in up.workers),
        toxiproxy=TargetToxiproxy(
            control=str(endpoint_of(up.toxiproxy)),
            log=str(Path(up.directory) / "logs" / "toxiproxy.log"),
        ),
        links=tuple(
            TargetLink(name=link.name, proxy=link.proxy.rpartition("/")[2]) for link in up.links
        ),
        traces=up.traces,
        spans=str(Path(up.directory) / "spans.sqlite"),
    )


def _worker(worker: WorkerEndpoint) -> TargetWorker:
    return TargetWorker(
        name=worker.name,
        role="prefill" if worker.role == "prefill" else "decode",
        url=worker.url,
        bootstrap=worker.bootstrap,
        pausable=True,
    )
