"""The phases of a run, in order; each is one function of the run's context."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.capacity_probe import num_probe_tokens, probe_capacity
from chaos.control import choose_control, write_requests
from chaos.errors import ChaosError, ProcessFailed
from chaos.evidence_kinds import CONTROL_RUN, LEDGER
from chaos.guards import Eyes, GuardWatch, Sending, build_guards
from chaos.history_tail import HistoryTail
from chaos.ledgers import LedgerSampler, sample_all, wait_idle
from chaos.method import run_method
from chaos.pairs import Pair
from chaos.process import ManagedProcess
from chaos.records import EventKind, FaultRecord, WorkerLedger, read_jsonl
from chaos.run_context import RunContext
from chaos.serving import wait_until_serving
from chaos.slo import Recent
from loadtest.history import read_history

Baseline = dict[str, WorkerLedger]
_CONTROL_SPARE = 4  # a near tie takes a request out of the check
_CONTROL_WITHIN_S = 60.0


def start(run: RunContext) -> None:
    """Toxiproxy, span store, workers, router: serving."""
    run.phase("setup")
    names = ", ".join(run.deployment.workers)
    if run.is_ours:
        doing = f"starting toxiproxy, span store, {names} and the router"
    else:
        doing = f"looking whether {names} and the router answer"
    with run.progress.during(doing):
        run.deployment.start()
        if not wait_serving(run):
            raise ProcessFailed(
                f"no request completes through the router; see {run.directory / 'logs'} and events.jsonl"
            )
    run.progress.say(f"serving on http://{run.deployment.router}")


def wait_serving(run: RunContext) -> bool:
    """A small request completes through the router, which knows its workers, and on every pair, which
    know each other."""
    within_s = run.scenario.deployment.ready_within_s
    problem = wait_until_serving(run.deployment, run.brake, within_s)
    run.journal.event(EventKind.NOTE, "serving", ok=not problem, limit=within_s, detail=problem)
    return not problem


def take_baseline(run: RunContext) -> Baseline:
    """Free counts before any request."""
    run.phase("baseline")
    wait_idle(run.deployment, run.brake, within_s=5.0)
    return sample_all(run.deployment, run.journal, "baseline")


def warm_up(run: RunContext) -> float:
    """Measure the capacity; returns the request rate of the load."""
    run.phase("warmup")
    spec = run.scenario.load
    with run.progress.during(f"measuring the capacity for {spec.warmup_s:g} s"):
        capacity = run.load.measure_capacity(run.deployment.router, run.deployment.traces_url)
    rate = min(capacity.req_per_s * spec.capacity_share, spec.max_request_rate or math.inf)
    run.note(
        capacity_tokens_per_s=capacity.tokens_per_s,
        capacity_req_per_s=capacity.req_per_s,
        request_rate=rate,
    )
    run.progress.say(
        f"capacity {capacity.req_per_s:.2f} requests/s; the load asks for {rate:.2f}"
        f" ({rate / capacity.req_per_s:.0%})"
    )
    wait_idle(run.deployment, run.brake, run.scenario.expect.drain_within_s)
    return rate


def load_with_faults(run: RunContext, rate: float) -> None:
    """The load in the background, guards and sampler beside it, the method in the foreground."""
    run.phase("load")
    aborts = run.deployment.abort_endpoints
    process = run.load.start(run.deployment.router, aborts, run.deployment.traces_url, rate)
    try:
        # Seconds of the method count from the first request, not from the driver's imports.
        run.brake.wait_for(lambda: _begun(run, process), timeout_s=20.0)
        with (
            watched(run, rate),
            run.progress.during(f"load for {run.scenario.load.duration_s:g} s"),
        ):
            run_method(run)
            run.deployment.check()
            run.load.wait_load(process)
    finally:
        run.load.stop(process)


@contextmanager
def watched(run: RunContext, rate: float) -> Iterator[None]:
    """Guards and ledger sampler on."""
    history = HistoryTail(run.directory / "history.jsonl")
    sending = Sending(until_s=time.monotonic() + run.scenario.load.duration_s, rate=rate)
    recent = Recent(lambda: run.active.first_on_ns)
    eyes = Eyes(
        workers=() if LEDGER in run.deployment.cannot_show else run.deployment.workers,
        history=history,
        freshness=run.freshness,
        active=run.active,
        sending=sending,
        recent=recent,
    )
    guards = build_guards(run.scenario.guards, eyes)
    watch = GuardWatch(guards, history, run.freshness, run.brake, run.journal, recent)
    sampler = LedgerSampler(run.deployment, run.journal, run.freshness)
    sampler.start()
    watch.start()
    try:
        yield
    finally:
        watch.stop()
        sampler.stop()


def drain(run: RunContext) -> None:
    """Both workers idle; meanwhile the control worker loads."""
    run.phase("drain")
    if _has_control(run):
        run.deployment.start_control()
    within_s = run.scenario.expect.drain_within_s
    with run.progress.during("waiting until the workers are idle"):
        idle = wait_idle(run.deployment, run.brake, within_s)
    run.journal.event(
        EventKind.NOTE,
        "drained",
        ok=idle,
        limit=within_s,
        detail="" if idle else f"not idle after {within_s:g} s",
    )


def take_final(run: RunContext) -> None:
    run.phase("final")
    sample_all(run.deployment, run.journal, "final")


def probe(run: RunContext, baseline: Baseline) -> None:
    """On each pair one request that needs the whole pool."""
    run.phase("probe")
    wait_serving(run)
    for pair in run.deployment.pairs:
        _probe_pair(run, pair, baseline)
        wait_idle(run.deployment, run.brake, within_s=5.0)


def _probe_pair(run: RunContext, pair: Pair, baseline: Baseline) -> None:
    page_size = run.scenario.deployment.worker.page_size
    num_tokens = num_probe_tokens(baseline, (pair.prefill, pair.decode), page_size)
    if num_tokens is None:
        run.journal.event(
            EventKind.PROBE, f"capacity:{pair}", detail="no baseline to take the pool's size from"
        )
        return
    within_s = run.scenario.expect.probe_within_s
    with run.progress.during(f"capacity probe of {pair}: {num_tokens} tokens, the whole pool"):
        ok = probe_capacity(pair, num_tokens, within_s, run.journal, run.scenario.seed)
    if not ok:
        run.progress.say(f"the capacity probe of {pair} did not complete", style="red")


def control_run(run: RunContext) -> None:
    """The same prompts on a unified worker without proxies: the expected tokens."""
    wanted = run.scenario.expect.control_requests
    if not _has_control(run):
        return
    run.phase("control")
    count = wanted + _CONTROL_SPARE
    requests = choose_control(
        read_history(run.directory / "history.jsonl"),
        read_faults(run.directory / "faults.jsonl"),
        count,
    )
    path = run.directory / "control-requests.jsonl"
    write_requests(path, requests)
    with run.progress.during(f"control run of {len(requests)} requests on a unified worker"):
        endpoint = run.deployment.wait_control()
        run.load.replay(endpoint, path, run.deployment.traces_url, _CONTROL_WITHIN_S)


def _has_control(run: RunContext) -> bool:
    wanted = run.scenario.expect.control_requests
    return bool(wanted) and CONTROL_RUN not in run.deployment.cannot_show


def read_faults(path: Path) -> list[FaultRecord]:
    return read_jsonl(path, FaultRecord) if path.exists() else []


def tear_down(run: RunContext) -> list[str]:
    """End everything; returns what is left."""
    run.phase("teardown")
    try:
        return run.deployment.stop()
    except (ChaosError, OSError) as error:
        return [f"teardown: {error}"]


def _begun(run: RunContext, process: ManagedProcess) -> bool:
    process.require_alive()
    path = run.directory / "history.jsonl"
    return path.exists() and path.stat().st_size > 0
