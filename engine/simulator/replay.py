"""A readable account of one schedule: what it does, what happened when, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.schedule import Schedule
from engine.simulator.simulation import Outcome, Simulation


def replay(schedule: Schedule) -> tuple[Outcome, Iterator[str]]:
    """Run a schedule with its log; the lines are for people."""
    simulation = Simulation(schedule, keeps_log=True)
    outcome = simulation.run()
    return outcome, _lines(schedule, simulation, outcome)


def _lines(schedule: Schedule, simulation: Simulation, outcome: Outcome) -> Iterator[str]:
    topology = schedule.topology
    yield (
        f"seed {schedule.seed}: {topology.num_prefill}P{topology.num_decode}D,"
        f" {len(schedule.requests)} requests, {len(schedule.faults)} faults, {len(schedule.acts)} acts;"
        f" pages of {topology.page_size} tokens, {topology.prefill_pages} at prefill,"
        f" {topology.decode_pages} at decode, {topology.staging_pages} for staging;"
        f" {topology.num_layers or 'no'} layers to stop between, {topology.num_ranks} ranks"
    )
    for now_ns, who, what in simulation.history.log:
        yield f"{(now_ns - START_NS) / MS_NS:10.1f} ms  {who:6} {what}"
    if outcome.violation is None:
        yield f"clean: every law held, {outcome.virtual_ms} virtual ms"
    else:
        broken = outcome.violation
        yield f"{broken.at_ms:8}.0 ms  BROKEN {broken.law}: {broken.text}"
