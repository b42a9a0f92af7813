"""The method of a scenario: each fault at its time, from an empty queue, one after the other."""

from __future__ import annotations

import time

from chaos.codes import HealRung
from chaos.fault_spans import FaultSpans
from chaos.fault_step import FaultStep
from chaos.faults.build import build_fault
from chaos.faults.declaration import HealReport
from chaos.ledgers import num_waiting, sample_all
from chaos.records import EventKind
from chaos.run_context import RunContext
from chaos.spec import Step
from chaos.watchdog import watchdog


def run_method(run: RunContext) -> None:
    """Each fault at its time, from an empty queue. Beside it a watchdog that heals if we are killed."""
    with watchdog(run.directory):
        _follow(run)


def _follow(run: RunContext) -> None:
    begun = time.monotonic()
    url = run.deployment.traces_url
    spans = FaultSpans(url, run.run_id) if url else None
    try:
        for index, step in enumerate(run.scenario.method):
            run.brake.sleep_until(begun + step.at_s)
            run.deployment.check()
            run_step(run, index, step, spans)
    finally:
        if spans is not None:
            spans.close()


def run_step(run: RunContext, index: int, step: Step, spans: FaultSpans | None) -> None:
    fault = build_fault(step.fault, run.deployment)
    what = f"{fault.declaration.mode} {', '.join((*fault.links, *fault.workers))}"
    fault_step = FaultStep(
        f"f{index}-{fault.declaration.mode}", fault, run.journal, run.active, incarnations(run)
    )
    fault_step.declare()
    wait_steady(run)
    run.progress.say(f"fault: {what}", style="yellow")
    try:
        report = fault_step.run(run.brake)
        run.progress.say(f"healed: {what} ({describe_heal(report)})", style="green")
    finally:
        times = fault_step.times()
        if times is not None and spans is not None:
            spans.send(fault, times)


def wait_steady(run: RunContext) -> None:
    """Wait for an empty queue; if none comes in time, say so and go on."""
    steady = run.scenario.steady_state

    def empty() -> bool:
        waiting = num_waiting(run.deployment)
        return waiting is not None and waiting <= steady.max_waiting

    ok = run.brake.wait_for(empty, steady.within_s, poll_s=0.02)
    run.journal.event(
        EventKind.STEADY,
        "queue",
        ok=ok,
        limit=steady.max_waiting,
        detail="" if ok else f"the waiting queues were not empty within {steady.within_s:g} s",
    )


def incarnations(run: RunContext) -> dict[str, str]:
    """Which worker processes a fault meets."""
    ledgers = sample_all(run.deployment, run.journal, "load")
    return {name: ledger.incarnation for name, ledger in ledgers.items()}


def describe_heal(report: HealReport) -> str:
    if report.rung is HealRung.NONE:
        return f"NOT HEALED: {'; '.join(report.left)}"
    return f"{report.rung} in {report.ms:.0f} ms"
