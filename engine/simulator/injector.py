"""`Injector`: makes faults and heals them, at their times."""

from __future__ import annotations

from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.network import LaneMode, Link
from engine.simulator.process import World
from engine.simulator.router import Router
from engine.simulator.schedule import LINK_FAULTS, Direction, Fault, FaultKind


class Injector:
    """A later fault on the same target takes over; each ends at its own time."""

    def __init__(self, world: World, router: Router) -> None:
        self._world = world
        self._router = router

    def plan(self, fault: Fault) -> None:
        at_ns = START_NS + fault.at_ms * MS_NS
        for target in fault.targets:
            self._world.clock.at(at_ns, self._inject, fault, target)
            self._world.clock.at(at_ns + fault.for_ms * MS_NS, self._heal, fault, target)

    def _inject(self, fault: Fault, target: str) -> None:
        what = f"{fault.kind} {target} {fault.direction} for {fault.for_ms} ms"
        self._world.history.note(self._world.clock.now_ns, "fault", what)
        if fault.kind in LINK_FAULTS:
            _cut(self._world.network.link(target), fault)
        else:
            self._hurt(target, fault)

    def _heal(self, fault: Fault, target: str) -> None:
        self._world.history.note(self._world.clock.now_ns, "heal", f"{fault.kind} {target}")
        if fault.kind in LINK_FAULTS:
            self._world.network.link(target).heal()
            return
        worker = self._world.workers[target]
        match fault.kind:
            case FaultKind.CRASH:
                worker.restart()
            case FaultKind.PAUSE:
                worker.resume()
            case FaultKind.SLOW:
                worker.slow(1)
            case _:
                pass  # a wedge ends by itself

    def _hurt(self, target: str, fault: Fault) -> None:
        worker = self._world.workers[target]
        match fault.kind:
            case FaultKind.CRASH:
                worker.crash()
                self._router.process_died(target)
            case FaultKind.PAUSE:
                worker.pause()
            case FaultKind.WEDGE:
                worker.wedge(fault.for_ms)
            case FaultKind.SLOW:
                worker.slow(fault.amount)
            case _:
                raise AssertionError(f"{fault.kind} is no fault of a worker")


def _cut(link: Link, fault: Fault) -> None:
    lanes = {
        Direction.BOTH: link.lanes,
        Direction.FORWARD: (link.forward,),
        Direction.BACK: (link.back,),
    }[fault.direction]
    match fault.kind:
        case FaultKind.STALL | FaultKind.BLACKHOLE:
            for lane in lanes:
                lane.mode = LaneMode(fault.kind.value)
        case FaultKind.DELAY:
            for lane in lanes:
                lane.extra_ns = fault.amount * MS_NS
        case FaultKind.REFUSE:
            link.refusing = True
            link.reset()
        case FaultKind.RESET:
            link.reset()
        case _:
            raise AssertionError(f"{fault.kind} is no fault of a link")
