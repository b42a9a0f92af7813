"""A run from start to verdict: start, baseline, load with faults, drain, probe, control, end, judge.

::

    facts ──▶ run directory ──▶ oracle ──▶ verdict.json ──▶ junit.xml, report.html

Whatever is raised on the way, every fault is healed (in its step) and every process ended (here); then
the oracle judges what is in the run directory, be it whole or cut short.
"""

from __future__ import annotations

from pathlib import Path

from chaos import phases
from chaos.doctor import examine, missing, print_findings
from chaos.errors import ChaosError, Halted, Interrupted, ToolMissing
from chaos.interrupt import signals_pull
from chaos.judging import judge
from chaos.lever import lever_pulls, require_off
from chaos.local import LocalOptions
from chaos.progress import Progress
from chaos.records import EventKind
from chaos.residue import find_residue
from chaos.run_context import RunContext, prepare_out
from chaos.scenario import Scenario
from chaos.target import Target
from chaos.target_fit import fitted
from chaos.tools import require_toxiproxy


def run_scenario(
    scenario: Scenario,
    directory: Path,
    regression: str | None = None,
    progress: Progress | None = None,
    target: Target | None = None,
) -> int:
    """Run it and judge it; returns the exit code. Raises `UsageError` before anything was started.

    ``target``: against this deployment of somebody else's, which `chaos.target_fit.unsupported` found fit.
    """
    progress = progress or Progress()
    require_off()
    if target is None:
        check_machine(progress)
    else:
        scenario = fitted(scenario, target)
    prepare_out(directory)
    options = LocalOptions(regression=regression)
    binary = require_toxiproxy() if target is None else None
    run = RunContext(scenario, directory, options, binary, progress, target)
    run.open()
    with signals_pull(run.brake, progress.say), lever_pulls(run.brake):
        try:
            perform(run)
        finally:
            residue = finish(run)
    run.brake.close()
    return judge(directory, progress, interrupted=run.info.interrupted, residue=residue)


def perform(run: RunContext) -> None:
    """The run itself. Stops and failures are recorded, not raised: what happened is for the oracle."""
    try:
        follow_plan(run)
        run.note(finished=True)
    except Halted as stop:
        run.note(halted_by=str(stop))
        run.progress.say(f"HALTED by guard {stop}", style="bold red")
    except Interrupted as stop:
        run.note(interrupted=True)
        run.progress.say(f"interrupted ({stop}); ending every process", style="bold yellow")
    except ChaosError as error:
        run.journal.event(EventKind.NOTE, "error", ok=False, detail=str(error))
        run.progress.say(str(error), style="bold red")


def follow_plan(run: RunContext) -> None:
    phases.start(run)
    baseline = phases.take_baseline(run)
    rate = phases.warm_up(run)
    phases.load_with_faults(run, rate)
    phases.drain(run)
    phases.take_final(run)
    phases.probe(run, baseline)
    phases.control_run(run)


def finish(run: RunContext) -> list[str]:
    """End everything and look for leftovers."""
    with run.progress.during("ending every process"):
        left = phases.tear_down(run)
    residue = list(dict.fromkeys([*left, *find_residue(run.directory, run.run_id)]))
    run.phase("done")
    run.close(residue)
    return residue


def check_machine(progress: Progress) -> None:
    """The doctor's look; builds toxiproxy if it is missing. Raises `ToolMissing`."""
    with progress.during("looking at this machine"):
        lacks = missing(examine(fix=True))
    if lacks:
        print_findings(lacks)
        raise ToolMissing("something is missing (see above); `severance doctor` shows everything")
