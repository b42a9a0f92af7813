"""Does a worker's memory grow with the requests that it has served?

    python -m bench.memory [--requests 10000] [--first 1000]

Short requests in a closed loop, half of them aborted (by disconnect, by rid, and by a rid that arrives before
its request), first on a unified worker, then through the router on a 1P1D pair. After the first 1,000 and at
the end, idle both times: resident memory of each process, sizes of what each worker holds, free counts.
Prints a JSON line a process. Exit code 1 if something grew.

Memory is what a process has for itself (USS), so that a shared library does not hide a leak. The limit is
1 % + 8 MB: allocators keep some of a peak, and the ends of rooms are kept for a minute by design (8,192 at
most, about 0.5 kB each). Over 9,000 requests that finds a leak of one kilobyte a request.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import psutil

from bench.abort_storm import Storm, StormReport, run_storm
from bench.row import BenchRow, at_most, make_row
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.ledgers import LedgerError, ask_ledger
from chaos.links import Endpoint
from chaos.local import LocalDeployment
from chaos.process import Launcher
from chaos.records import WorkerLedger
from chaos.spec import DeploymentSpec, WorkerSpec
from chaos.tools import require_toxiproxy

SPEC = DeploymentSpec(worker=WorkerSpec(max_total_tokens=8192, nice=0))
SLACK_SHARE = 0.01
SLACK_MB = 8.0
_IDLE_WITHIN_S = 20.0
_SETTLE_S = 2.5
"""Longer than an abort that overtook its request is remembered."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of one process. ``sizes``: what it says to hold, where it says so."""

    process: str
    uss_mb: float
    sizes: dict[str, int]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``grew``: what is larger than it may be; empty is well."""

    target: str
    process: str
    requests: int
    aborted: int
    first_mb: float
    last_mb: float
    limit_mb: float
    sizes: dict[str, int]
    grew: tuple[str, ...]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """``workers``: by name; their processes are measured. ``front``: where requests go."""

    name: str
    front: Endpoint
    workers: dict[str, Endpoint]


def targets(deployment: LocalDeployment) -> tuple[Target, Target]:
    """The unified worker beside the pair, and the pair behind its router."""
    unified = deployment.layout.control_worker
    return (
        Target(name="unified", front=unified.http, workers={unified.name: unified.http}),
        Target(
            name="pair",
            front=deployment.router,
            workers={name: deployment.worker_endpoint(name) for name in deployment.workers},
        ),
    )


def measure(
    deployment: LocalDeployment, target: Target, num_requests: int, num_first: int, seed: int = 0
) -> list[Row]:
    """The storm in two parts with a look after each. Raises `AssertionError` if a worker is not idle then.

    Every row says what is wrong with its process, or with the target as a whole.
    """
    if not 0 < num_first < num_requests:
        raise ValueError(f"{num_first} first requests of {num_requests} leave nothing to compare")
    baseline = {name: _idle_ledger(worker) for name, worker in target.workers.items()}
    chance = random.Random(seed)
    storm = Storm(front=target.front, workers=tuple(target.workers.values()))
    early = asyncio.run(run_storm(storm, num_first, chance))
    before = look(deployment, target)
    late = asyncio.run(run_storm(storm, num_requests - num_first, chance))
    after = look(deployment, target)
    leaks = [
        leak for name, worker in target.workers.items() for leak in _lost(name, worker, baseline)
    ]
    return [
        _row(target, early + late, first, last, leaks)
        for first, last in zip(before, after, strict=True)
    ]


def look(deployment: LocalDeployment, target: Target) -> list[Usage]:
    """Idle, and after what is kept for two seconds only."""
    ledgers = {name: _idle_ledger(worker) for name, worker in target.workers.items()}
    time.sleep(_SETTLE_S)
    found = []
    for name, ledger in ledgers.items():
        http = psutil.Process(deployment.worker_pid(name))
        (scheduler,) = http.children()
        sizes = {
            "rooms_open": ledger.rooms_open,
            "requests": ledger.requests,
            "holders": len(ledger.holders),
            **{f"queue_{queue}": length for queue, length in ledger.queues.items()},
        }
        found.append(Usage(process=f"{name} scheduler", uss_mb=_uss_mb(scheduler), sizes=sizes))
        sizes = _sizes_of_http(target.workers[name])
        found.append(Usage(process=f"{name} http", uss_mb=_uss_mb(http), sizes=sizes))
    for program in deployment.processes():
        if program.name == "spanstore":
            memory = _uss_mb(psutil.Process(program.pid))
            found.append(Usage(process=program.name, uss_mb=memory, sizes={}))
    return found


def grown(first: Usage, last: Usage) -> list[str]:
    """What may not be: memory over the limit, anything still held by an idle process."""
    limit = limit_mb(first)
    wrong = [f"{name} is {size}, not 0" for name, size in last.sizes.items() if size]
    if last.uss_mb > limit:
        wrong.append(f"{last.uss_mb:.1f} MB, limit {limit:.1f} MB")
    return wrong


def limit_mb(first: Usage) -> float:
    return first.uss_mb * (1 + SLACK_SHARE) + SLACK_MB


def _row(target: Target, report: StormReport, first: Usage, last: Usage, leaks: list[str]) -> Row:
    return Row(
        target=target.name,
        process=last.process,
        requests=report.requests,
        aborted=report.aborted,
        first_mb=round(first.uss_mb, 1),
        last_mb=round(last.uss_mb, 1),
        limit_mb=round(limit_mb(first), 1),
        sizes=last.sizes,
        grew=(*grown(first, last), *leaks),
    )


def _uss_mb(process: psutil.Process) -> float:
    return float(process.memory_full_info().uss) / 1e6


def _sizes_of_http(worker: Endpoint) -> dict[str, int]:
    """From /metrics: ``severance_NAME{...} VALUE``."""
    from chaos.http import fetch

    text = fetch(worker, "/metrics", timeout_s=5.0).body.decode()
    sizes = {}
    for name in ("rid_to_state", "early_aborts", "spans_waiting"):
        (line,) = [one for one in text.splitlines() if one.startswith(f"severance_{name}{{")]
        sizes[name] = int(float(line.rpartition(" ")[2]))
    return sizes


def _idle_ledger(worker: Endpoint) -> WorkerLedger:
    deadline = time.monotonic() + _IDLE_WITHIN_S
    why = "no answer"
    while time.monotonic() < deadline:
        try:
            ledger = ask_ledger(worker)
        except LedgerError as error:
            why = str(error)
        else:
            if ledger.idle and not (ledger.requests or ledger.rid_to_state or ledger.rooms_open):
                return ledger
            why = f"{ledger.requests} requests, {ledger.rooms_open} rooms, {ledger.holders}"
        time.sleep(0.05)
    raise AssertionError(f"{worker} is not idle after {_IDLE_WITHIN_S:g} s: {why}")


def _lost(name: str, worker: Endpoint, baseline: dict[str, WorkerLedger]) -> list[str]:
    now = ask_ledger(worker, timeout_s=5.0)
    was = baseline[name].resources
    return [
        f"{name}: {resource} {count.free} free, {was[resource].free} at baseline"
        for resource, count in now.resources.items()
        if count.free != was[resource].free
    ] + list(now.conservation)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, as a list")
    parser.add_argument("--quick", action="store_true", help="few requests: does it run")
    args = parser.parse_args(argv)
    if args.quick:
        args.requests, args.first = 300, 100
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        brake = Brake()
        launcher = Launcher(Journal(path, "memory"))
        deployment = LocalDeployment(
            SPEC, launcher, require_toxiproxy(), path / "spans.sqlite", brake
        )
        rows: list[Row] = []
        try:
            deployment.start()
            deployment.start_control()
            deployment.wait_control()
            for target in targets(deployment):
                found = measure(deployment, target, args.requests, args.first)
                print("\n".join(msgspec.json.encode(row).decode() for row in found), flush=True)
                rows += found
        finally:
            deployment.stop()
            brake.close()
    if args.json is not None:
        args.json.write_bytes(msgspec.json.encode([bench_row(row) for row in rows]))
        return 0
    return 1 if any(row.grew for row in rows) else 0


def bench_row(row: Row) -> BenchRow:
    """The same as a row of `python -m bench`."""
    limit = at_most(row.limit_mb, f"<= {row.limit_mb:.0f} MB, nothing left behind")
    judged = make_row(
        f"memory.{row.target}.{row.process}",
        row.last_mb,
        "MB",
        limit,
        f"own memory after {row.requests:,} requests, {row.aborted:,} of them aborted "
        f"(after the first ones {row.first_mb:.0f} MB); {', '.join(row.grew) or 'nothing grew'}",
        samples=row.requests,
    )
    return msgspec.structs.replace(judged, passed=bool(judged.passed) and not row.grew)


if __name__ == "__main__":
    sys.exit(main())
