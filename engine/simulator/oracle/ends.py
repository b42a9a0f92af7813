"""`EndOracle`: what must hold once the last fault is healed and the dust has settled."""

from __future__ import annotations

from engine.core.codes import DisaggregationMode
from engine.core.disagg import DisaggScheduler
from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.history import HalfRecord
from engine.simulator.oracle.blast import (
    OWN_FAULT,
    Pair,
    aborted_rids,
    long_cuts,
    must_complete,
    unhurt_pairs,
    untouched_pairs,
)
from engine.simulator.oracle.invariants import StepOracle
from engine.simulator.oracle.violation import BrokenLaw, Law
from engine.simulator.process import Process, World
from engine.simulator.schedule import Direction, Fault, Request, Schedule

TOLD_WITHIN_NS = 1_000 * MS_NS
"""One half aborts: the other, if nothing is broken between them, follows within this."""

HEEDED_WITHIN_NS = 300 * MS_NS
"""A worker that is well answers an abort within this: one forward, and a step."""
NOTICED_WITHIN_NS = 2_000 * MS_NS
"""Both halves of what a long cut of `control` hurts have ended within this."""
MET_WITHIN_NS = 60 * MS_NS
"""By then the halves of a request know of each other, where the pair has met before."""
SERVED_WITHIN_NS = 6_000 * MS_NS
"""A request on a pair without faults of its own never waits longer, whatever its neighbors suffer: a decode's
pages that are reserved for a prefill that went silent are free after the bootstrap timeout (5 s)."""


class EndOracle:
    """Raises BrokenLaw at the first violation."""

    def __init__(self, schedule: Schedule, world: World, steps: StepOracle) -> None:
        self._schedule = schedule
        self._world = world
        self._steps = steps

    def processes(self) -> list[Process]:
        found = [worker.process for worker in self._world.workers.values()]
        return [process for process in found if process is not None]

    def is_quiet(self) -> bool:
        """Everybody answered, everything released."""
        if self._world.history.num_open:
            return False
        return all(
            process.core.is_idle() and not process.core.pools.ledger.owners()
            for process in self.processes()
        )

    def why_not_quiet(self) -> BrokenLaw:
        """The bound has passed: say what is left."""
        unanswered = self._world.history.unanswered()
        if unanswered:
            names = ", ".join(record.name for record in unanswered[:4])
            return self._steps.broken(Law.ANSWERED, f"{len(unanswered)} never answered: {names}")
        for process in self.processes():
            holders = process.core.pools.ledger.holders()
            if holders:
                first = holders[0]
                text = f"{process.name}: {first.owner} holds {first.count} {first.resource}"
                return self._steps.broken(Law.ALL_RELEASED, text)
        left = [p.name for p in self.processes() if not p.core.is_idle()]
        return self._steps.broken(Law.ROOMS_CLOSED, f"{', '.join(left)} still has rooms open")

    def check_requests(self) -> None:
        """Nobody on a pair with light faults was hurt; none without waited for word from the other."""
        untouched, unhurt = untouched_pairs(self._schedule), unhurt_pairs(self._schedule)
        aborted = aborted_rids(self._schedule)
        halves = self._world.history.halves
        for request in self._schedule.requests:
            prefill = halves.get((f"p{request.prefill}", request.rid, request.room))
            decode = halves.get((f"d{request.decode}", request.rid, request.room))
            if must_complete(request, unhurt, aborted, self._schedule.acts):
                self._check_bystander(prefill, decode)
            if (request.prefill, request.decode) in untouched and prefill and decode:
                self._check_starved(prefill, decode)
                self._check_told(prefill, decode)
                self._check_told(decode, prefill)

    def check_aborts(self) -> None:
        """Workers without faults of their own heed an abort at once."""
        hurt = {target for fault in self._schedule.faults for target in fault.targets}
        for half in self._world.history.halves.values():
            late_ns = half.ended_ns - half.abort_ns
            if half.abort_ns and half.worker not in hurt and late_ns > HEEDED_WITHIN_NS:
                text = f"{half.name} ended {late_ns // MS_NS} ms after its abort"
                raise self._steps.broken(Law.ABORT_PROMPT, text)

    def check_deadlines(self) -> None:
        """A worker without faults of its own ends a request soon after the client's deadline."""
        hurt = {target for fault in self._schedule.faults for target in fault.targets}
        for half in self._world.history.halves.values():
            deadline_ns = half.arrived_ns + half.request.deadline_ms * MS_NS
            late_ns = half.ended_ns - deadline_ns
            if half.request.deadline_ms and half.worker not in hurt and late_ns > HEEDED_WITHIN_NS:
                text = f"{half.name} ended {late_ns // MS_NS} ms after its deadline"
                raise self._steps.broken(Law.DEADLINE_KEPT, text)

    def plan_cuts(self) -> None:
        """Two seconds into a long cut the two know that they have lost each other, busy or not."""
        for pair, cut in long_cuts(self._schedule):
            at_ns = START_NS + cut.at_ms * MS_NS + NOTICED_WITHIN_NS
            self._world.clock.at(at_ns, self._check_parted, pair, cut)

    def _check_parted(self, pair: Pair, cut: Fault) -> None:
        prefill, decode = f"p{pair[0]}", f"d{pair[1]}"
        if self._has_peer(decode, f"{prefill}:1"):
            text = f"{decode} takes {prefill} for alive, 2 s into a cut"
            raise self._steps.broken(Law.CUT_NOTICED, text)
        is_heard = (
            cut.direction is Direction.BACK
        )  # then it may have opened the next session already
        if not is_heard and self._has_peer(prefill, decode):
            text = f"{prefill} takes {decode} for alive, 2 s into a cut"
            raise self._steps.broken(Law.CUT_NOTICED, text)

    def _has_peer(self, worker: str, peer: str) -> bool:
        process = self._world.workers[worker].process
        core = process.core if process is not None else None
        return isinstance(core, DisaggScheduler) and peer in core.peers

    def check_cuts(self) -> None:
        """What was under way on a pair when its control link was cut for long has ended soon after."""
        for (prefill, decode), cut in long_cuts(self._schedule):
            cut_ns = START_NS + cut.at_ms * MS_NS
            of_pair = [
                request
                for request in self._schedule.requests
                if (request.prefill, request.decode) == (prefill, decode)
            ]
            for request in of_pair:
                if of_pair[0].at_ms < cut.at_ms - 1000:  # the pair has met
                    self._check_noticed(request, cut_ns)

    def _check_noticed(self, request: Request, cut_ns: int) -> None:
        halves = self._world.history.halves
        both = [
            halves.get((name, request.rid, request.room))
            for name in (f"p{request.prefill}", f"d{request.decode}")
        ]
        under_way = [
            half
            for half in both
            if half and half.arrived_ns < cut_ns - MET_WITHIN_NS and half.ended_ns > cut_ns
        ]
        if len(under_way) < 2:
            return
        for half in under_way:
            late_ns = half.ended_ns - cut_ns
            if late_ns > NOTICED_WITHIN_NS and not half.completed:
                text = f"{half.name} ended {late_ns // MS_NS} ms after the cut ({half.outcome})"
                raise self._steps.broken(Law.CUT_NOTICED, text)

    def _check_starved(self, *halves: HalfRecord) -> None:
        for half in halves:
            took_ns = half.ended_ns - half.arrived_ns
            if took_ns > SERVED_WITHIN_NS:
                text = f"{half.name} took {took_ns // MS_NS} ms ({half.outcome})"
                raise self._steps.broken(Law.NO_STARVATION, text)

    def _check_bystander(self, *halves: HalfRecord | None) -> None:
        for half in halves:
            if half is not None and not half.completed and half.outcome not in OWN_FAULT:
                text = f"{half.name} ended with {half.outcome}, no fault that may do that was near"
                raise self._steps.broken(Law.BYSTANDER_UNHURT, text)

    def _check_told(self, half: HalfRecord, other: HalfRecord) -> None:
        if half.completed:
            return
        late_ns = other.ended_ns - max(half.ended_ns, other.arrived_ns)
        if late_ns > TOLD_WITHIN_NS:
            text = f"{other.name} ended {late_ns // MS_NS} ms after {half.name} ({half.outcome})"
            raise self._steps.broken(Law.PEER_TOLD, text)

    def check_baseline(self) -> None:
        """Free counts are what they were at the start, rooms are closed, the ledgers agree."""
        for process in self.processes():
            self._steps.scan(process)
            view = process.core.ledger_view()
            if view.rooms_open:
                raise self._steps.broken(Law.ROOMS_CLOSED, f"{process.name}: {view.rooms_open}")
            held = [name for name, count in view.resources.items() if count.free != count.total]
            if held or view.conservation or view.double_frees:
                text = f"{process.name}: {held} {view.conservation} {view.double_frees}"
                raise self._steps.broken(Law.ALL_RELEASED, text)

    def check_probes(self, probes: tuple[Request, ...]) -> None:
        """Every pair serves again."""
        for probe in probes:
            half = self._world.history.halves.get((f"d{probe.decode}", probe.rid, probe.room))
            if half is None or not half.completed:
                ended = half.outcome if half is not None else "never arrived"
                text = f"probe of p{probe.prefill}-d{probe.decode}: {ended}"
                raise self._steps.broken(Law.SERVES_AGAIN, text)

    def check_memory(self) -> None:
        """Ends of rooms are forgotten once nobody can ask about them."""
        for process in self.processes():
            core = process.core
            core.get_next_batch_to_run(self._world.clock.now_ns + 2 * core.config.terminal_keep_ns)
            if core.rooms.num_terminal:
                text = f"{process.name} remembers {core.rooms.num_terminal} rooms for good"
                raise self._steps.broken(Law.BOUNDED_MEMORY, text)
            if core.role is DisaggregationMode.DECODE:
                assert not core.queues()["transfer"]
