"""`measure`: one fleet under its work -> one report."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterable

from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.draw import Size
from engine.simulator.history import HalfRecord
from engine.simulator.oracle.violation import BrokenLaw, Law
from engine.simulator.scale.fleet import CRASH_MS, draw_fleet
from engine.simulator.scale.fleet_report import FleetReport
from engine.simulator.scale.meter import Meter
from engine.simulator.schedule import Schedule
from engine.simulator.simulation import Simulation

CHECK_PERIOD = 64
"""Of so many steps one is checked for conservation; every answer is."""
SLICE_MS = 50
LIMIT_MS = 30_000
MAX_EVENTS = 1_000_000_000
QUIET_AFTER_MS = 3600
"""Not before those that died are back."""

Progress = Callable[[int, int], None]
"""Virtual ms, halves that have their answer."""


def measure(seed: int, size: Size, on_progress: Progress) -> FleetReport:
    """Run a fleet until everybody is answered and everything is free."""
    schedule = draw_fleet(seed, size)
    simulation, meter = Simulation(schedule, check_period=CHECK_PERIOD), Meter()
    meter.attach(simulation.world)
    began_s, violation = time.process_time(), None
    links_log = logging.getLogger("engine.transfer")
    level = links_log.level
    links_log.setLevel(logging.CRITICAL)
    gc.disable()
    try:
        _run(simulation, on_progress)
    except BrokenLaw as broken:
        violation = str(broken)
    finally:
        gc.enable()
        links_log.setLevel(level)
    return _report(schedule, simulation, meter, time.process_time() - began_s, violation)


def _run(simulation: Simulation, on_progress: Progress) -> None:
    simulation.start()
    at_ms = 0
    while at_ms < QUIET_AFTER_MS or not simulation.ends.is_quiet():
        if at_ms >= LIMIT_MS:
            raise simulation.ends.why_not_quiet()
        at_ms += SLICE_MS
        if not simulation.clock.run_until(START_NS + at_ms * MS_NS, MAX_EVENTS):
            raise simulation.steps.broken(Law.NO_LIVELOCK, f"{MAX_EVENTS} events")
        history = simulation.history
        on_progress(at_ms, len(history.halves) - history.num_open)
    simulation.ends.check_baseline()


def _report(
    schedule: Schedule, simulation: Simulation, meter: Meter, cpu_s: float, violation: str | None
) -> FleetReport:
    halves = simulation.history.halves.values()
    crash_ns = START_NS + CRASH_MS * MS_NS
    dead = {target for fault in schedule.faults for target in fault.targets}
    found_ns = [at_ns - crash_ns for name in sorted(dead) for at_ns in meter.lost_ns.get(name, [])]
    busiest = max(meter.beats, key=meter.beats.__getitem__, default=0)
    return FleetReport(
        num_prefill=schedule.topology.num_prefill,
        num_decode=schedule.topology.num_decode,
        num_requests=len(schedule.requests),
        num_sessions=len({(r.prefill, r.decode) for r in schedule.requests}),
        num_steps=simulation.steps.num_steps,
        virtual_s=(simulation.clock.now_ns - START_NS) / 1e9,
        took_cpu_s=cpu_s,
        step_us={
            bucket: (_at(times, 0.5) / 1e3, _at(times, 0.99) / 1e3)
            for bucket, times in sorted(meter.step_ns.items())
        },
        beats_a_second=meter.beats[busiest],
        beat_bytes_a_second=meter.beat_bytes[busiest],
        abort_ms=_ms(half.ended_ns - half.abort_ns for half in halves if _heeded(half)),
        peer_abort_ms=_ms(_told(simulation)),
        detect_ms=_ms(found_ns),
        num_detected=len(found_ns),
        violation=violation,
    )


def _heeded(half: HalfRecord) -> bool:
    return bool(half.abort_ns) and half.finish is not None


def _told(simulation: Simulation) -> list[int]:
    """From an abort at one half to the end of the other, where that one ended by it."""
    halves, took_ns = simulation.history.halves, []
    for half in halves.values():
        request = half.request
        other_name = f"d{request.decode}" if half.worker[0] == "p" else f"p{request.prefill}"
        other = halves.get((other_name, request.rid, request.room))
        if half.abort_ns and other is not None and other.outcome == "client_abort":
            took_ns.append(other.ended_ns - max(half.abort_ns, other.arrived_ns))
    return took_ns


def _ms(times_ns: Iterable[int]) -> tuple[float, float]:
    """p50 and p99."""
    times = sorted(times_ns)
    return (_at(times, 0.5) / 1e6, _at(times, 0.99) / 1e6)


def _at(times: list[int], share: float) -> float:
    """A quantile; of nothing, not a number."""
    ordered = sorted(times)
    return float(ordered[int(share * (len(ordered) - 1))]) if ordered else float("nan")
