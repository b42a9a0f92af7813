"""`simulate`: one schedule -> one outcome."""

from __future__ import annotations

import logging
import traceback

import msgspec

from engine.simulator.clock import MS_NS, START_NS, VirtualClock
from engine.simulator.errors import RanksDisagree
from engine.simulator.history import History
from engine.simulator.injector import Injector
from engine.simulator.network import Network, Wire
from engine.simulator.operator import Operator
from engine.simulator.oracle.ends import EndOracle
from engine.simulator.oracle.invariants import StepOracle
from engine.simulator.oracle.violation import BrokenLaw, Law, Violation
from engine.simulator.process import World
from engine.simulator.router import Router
from engine.simulator.schedule import Half, Request, Schedule, Topology
from engine.simulator.worker import Worker

RECOVERY_MS = 30_000
"""After the last heal and the last request, everything is answered and released within this."""
PROBE_AFTER_MS = 3_000
PROBE_MS = 2_000
"""Five seconds after the last heal every pair has served a probe."""
MAX_EVENTS_PER_MS = 60
PROBE_ROOM = 900_000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """``digest`` sums up every answer and its time: equal digests, equal runs."""

    seed: int
    violation: Violation | None
    virtual_ms: int
    num_events: int
    num_steps: int
    num_requests: int
    num_completed: int
    num_cancelled: int
    outcomes: dict[str, int]
    digest: int


class Simulation:
    """One fleet under one schedule. ``keeps_log``: remember what happened when, for people.
    ``check_period``: of so many steps one is checked (answers always are)."""

    def __init__(self, schedule: Schedule, keeps_log: bool = False, check_period: int = 1) -> None:
        self.schedule = schedule
        self.clock = VirtualClock()
        self.history = History(keeps_log)
        self.world = World(self.clock, _make_network(self.clock, schedule.topology), self.history)
        self.router = Router(self.world)
        self.steps = StepOracle(self.world, schedule.topology, check_period)
        self.world.observer = self.steps
        self.ends = EndOracle(schedule, self.world, self.steps)

    def run(self) -> Outcome:
        """Run to the end, or to the first violation."""
        violation = None
        links_log = logging.getLogger("engine.transfer")
        level = links_log.level
        links_log.setLevel(logging.CRITICAL)  # lost sessions are what this is about
        try:
            self._run()
        except BrokenLaw as broken:
            violation = broken.violation
        except RanksDisagree as error:
            violation = self.steps.broken(Law.RANKS_AGREE, str(error)[:500]).violation
        except Exception as error:  # whatever the core dies of is a finding
            violation = self.steps.broken(Law.NO_CRASH, _describe(error)).violation
        finally:
            links_log.setLevel(level)
        return self._outcome(violation)

    def _run(self) -> None:
        self.start()
        settled_ms = max(self.schedule.horizon_ms, self.schedule.last_heal_ms)
        self._advance_to(settled_ms)
        self._until_quiet(settled_ms + RECOVERY_MS)
        self.ends.check_requests()
        self.ends.check_aborts()
        self.ends.check_deadlines()
        self.ends.check_cuts()
        self._advance_to(self.schedule.last_heal_ms + PROBE_AFTER_MS)
        self._probe()
        self.ends.check_baseline()
        self.ends.check_memory()

    def start(self) -> None:
        """Bring every worker up and put everything on the clock."""
        topology = self.schedule.topology
        names = [f"p{number}" for number in range(topology.num_prefill)]
        names += [f"d{number}" for number in range(topology.num_decode)]
        for name in names:
            self.world.workers[name] = Worker(name, topology, self.world)
        for name in names:
            self.world.workers[name].start()
        injector = Injector(self.world, self.router)
        for fault in self.schedule.faults:
            injector.plan(fault)
        for request in self.schedule.requests:
            self.router.plan(request)
        self.ends.plan_cuts()
        operator = Operator(self.world, self.router)
        for act in self.schedule.acts:
            operator.plan(act)

    def _advance_to(self, at_ms: int) -> None:
        span_ms = max(0, at_ms - self._now_ms())
        limit = MAX_EVENTS_PER_MS * (span_ms + 100)
        if not self.clock.run_until(START_NS + at_ms * MS_NS, limit):
            raise self.steps.broken(Law.NO_LIVELOCK, f"{limit} events in {span_ms} ms")

    def _now_ms(self) -> int:
        return (self.clock.now_ns - START_NS) // MS_NS

    def _until_quiet(self, limit_ms: int) -> None:
        while self.router.num_unsent or not self.ends.is_quiet():
            if self._now_ms() >= limit_ms:
                raise self.ends.why_not_quiet()
            self._advance_to(self._now_ms() + 50)

    def _probe(self) -> None:
        """One request for every pair, all pairs at once; nothing fails on purpose any more."""
        for process in self.ends.processes():
            process.set_poll_failures(0.0)
        at_ms = self._now_ms() + 1
        topology = self.schedule.topology
        probes = tuple(
            _make_probe(prefill, decode, PROBE_ROOM + prefill * 1000 + decode, at_ms)
            for prefill in range(topology.num_prefill)
            for decode in range(topology.num_decode)
        )
        for probe in probes:
            self.router.plan(probe)
        self._advance_to(at_ms + 1)
        while not self.ends.is_quiet() and self._now_ms() < at_ms + PROBE_MS:
            self._advance_to(self._now_ms() + 50)
        self.ends.check_probes(probes)

    def _outcome(self, violation: Violation | None) -> Outcome:
        outcomes: dict[str, int] = {}
        for half in self.history.halves.values():
            outcomes[half.outcome] = outcomes.get(half.outcome, 0) + 1
        return Outcome(
            seed=self.schedule.seed,
            violation=violation,
            virtual_ms=self._now_ms(),
            num_events=self.clock.num_events,
            num_steps=self.steps.num_steps,
            num_requests=len(self.schedule.requests),
            num_completed=sum(
                half.completed and half.worker.startswith("d")
                for half in self.history.halves.values()
            ),
            num_cancelled=self.steps.num_cancelled,
            outcomes=dict(sorted(outcomes.items())),
            digest=self.steps.digest,
        )


def simulate(schedule: Schedule) -> Outcome:
    """Run one schedule from start to end."""
    return Simulation(schedule).run()


def _make_network(clock: VirtualClock, topology: Topology) -> Network:
    jitter_ns = topology.jitter_us * 1000
    control = Wire(topology.delay_us * 1000, jitter_ns)
    kv = Wire(topology.kv_delay_us * 1000, jitter_ns)
    return Network(clock, {"bootstrap": control, "control": control, "kv": kv})


def _make_probe(prefill: int, decode: int, room: int, at_ms: int) -> Request:
    return Request(
        rid=f"probe-p{prefill}-d{decode}",
        room=room,
        at_ms=at_ms,
        prefill=prefill,
        decode=decode,
        num_tokens=9,
        max_new_tokens=2,
        half=Half.BOTH,
        lag_ms=0,
        aborts=(),
    )


def _describe(error: Exception) -> str:
    """The error and where it was raised, without paths."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    return f"{type(error).__name__} in {last.name}: {error}"
