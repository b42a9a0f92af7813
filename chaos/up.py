"""`severance up`: a deployment that stays, to play with; every link of every pair has its proxy.

The same parts as a run, without load and verdict. Its directory is a run directory, so that `severance heal`
finds what a killed `up` left.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from chaos import phases
from chaos.codes import ExitCode
from chaos.endpoints import FILE, UpEndpoints, describe, write
from chaos.errors import Interrupted
from chaos.interrupt import signals_pull
from chaos.local import LocalDeployment, LocalOptions
from chaos.process import ManagedProcess
from chaos.progress import Progress
from chaos.records import EventKind
from chaos.run_context import RunContext, prepare_out
from chaos.runner import check_machine, finish
from chaos.scenario import Scenario
from chaos.target import dump_target
from chaos.tools import require_toxiproxy
from chaos.up_target import TARGET, target_of
from chaos.up_text import summary

MAX_SPANS = 500_000
"""Of the span store, so that a deployment may stay for weeks: about half a gigabyte."""
_LOOK_S = 0.25
_TAIL_LINES = 5


class UpOptions(Struct, frozen=True, kw_only=True):
    """``for_s`` None: until Ctrl-C or SIGTERM. ``as_json``: the endpoints on stdout, all else on stderr."""

    directory: Path
    router_port: int | None = None
    for_s: float | None = None
    otlp_traces_endpoint: str | None = None
    as_json: bool = False


def run_up(scenario: Scenario, options: UpOptions, progress: Progress) -> int:
    """Start it, keep it, end it. Raises `UsageError` before anything was started, `ChaosError` if it cannot
    start; nothing is left then either. Exit code 0: it served and is gone."""
    check_machine(progress)
    prepare_out(options.directory)
    run = RunContext(scenario, options.directory, _local(options), require_toxiproxy(), progress)
    run.open()
    with signals_pull(run.brake, progress.say):
        try:
            code = _serve(run, options)
        finally:
            residue = finish(run)
    run.brake.close()
    for left in residue:
        progress.say(f"LEFT BEHIND: {left}; severance heal {options.directory}", style="bold red")
    return ExitCode.RESIDUE if residue else code


def _local(options: UpOptions) -> LocalOptions:
    return LocalOptions(
        router_port=options.router_port,
        forward=options.otlp_traces_endpoint,
        max_spans=MAX_SPANS,
    )


def _serve(run: RunContext, options: UpOptions) -> int:
    try:
        phases.start(run)
        show(run, options)
    except Interrupted as stop:
        run.progress.say(f"interrupted ({stop}) before it served", style="bold yellow")
        return ExitCode.INTERRUPTED
    try:
        keep(run, options.for_s)
    except Interrupted as stop:
        run.progress.say(f"{stop}: ending")
    run.note(finished=True)
    return ExitCode.PASSED


def show(run: RunContext, options: UpOptions) -> UpEndpoints:
    """Write `endpoints.json` and tell the user."""
    directory = options.directory.resolve()
    endpoints = describe(_own(run), run.run_id, os.getpid(), directory)
    path = write(endpoints, directory)
    dump_target(target_of(endpoints), directory / TARGET)
    if options.as_json:
        print(path.read_text(encoding="utf-8"), flush=True)
    else:
        print(summary(endpoints, path), flush=True)
    return endpoints


def keep(run: RunContext, for_s: float | None) -> None:
    """Until the time is over (returns) or somebody stops it (raises `Interrupted`).

    A program that ends is reported once; the others go on.
    """
    run.phase("up", detail=FILE)
    ends = None if for_s is None else time.monotonic() + for_s
    told: set[int] = set()
    while ends is None or time.monotonic() < ends:
        for process in _own(run).ended():
            if process.pid not in told:
                told.add(process.pid)
                _report(run, process)
        left_s = _LOOK_S if ends is None else ends - time.monotonic()
        run.brake.sleep(min(_LOOK_S, left_s))
    run.progress.say(f"{for_s:g} s are over: ending")


def _own(run: RunContext) -> LocalDeployment:
    assert isinstance(run.deployment, LocalDeployment), "`up` starts its own"
    return run.deployment


def _report(run: RunContext, process: ManagedProcess) -> None:
    code = process.returncode()
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    run.journal.event(EventKind.NOTE, "ended", ok=False, detail=f"{process.name}: {how}")
    run.progress.say(f"{process.name} ended ({how}); the others go on", style="bold red")
    run.progress.say(f"its log {process.log} ends with:\n{process.tail(_TAIL_LINES)}")
