"""`Operator`: pauses and continues generation, flushes, aborts by prefix, everything, or nobody."""

from __future__ import annotations

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import AbortReq, ControlReq
from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.history import Call
from engine.simulator.process import Process, World
from engine.simulator.router import Router
from engine.simulator.schedule import Act, ActKind


class Operator:
    """Each act at its time, on whatever process lives there then."""

    def __init__(self, world: World, router: Router) -> None:
        self._world = world
        self._router = router
        self._num_calls = 0

    def plan(self, act: Act) -> None:
        at_ns = START_NS + act.at_ms * MS_NS
        match act.kind:
            case ActKind.PAUSE:
                self._world.clock.at(at_ns, self._call, act.worker, "pause")
                end_ns = at_ns + act.for_ms * MS_NS
                self._world.clock.at(end_ns, self._call, act.worker, "continue")
            case ActKind.FLUSH:
                self._world.clock.at(at_ns, self._call, act.worker, "flush")
            case _:
                self._world.clock.at(at_ns, self._abort, act)

    def _call(self, worker: str, op: str) -> None:
        process = self._world.workers[worker].process
        if process is not None:
            process.run(self._accept, process, op)

    def _accept(self, process: Process, op: str) -> None:
        self._num_calls += 1
        history, now_ns = self._world.history, self._world.clock.now_ns
        history.note(now_ns, process.name, f"operator: {op}")
        history.calls[self._num_calls] = Call(op, now_ns)
        process.submit(ControlReq(id=self._num_calls, op=op))

    def _abort(self, act: Act) -> None:
        process = self._world.workers[act.worker].process
        if process is not None:
            process.run(self._accept_abort, process, act)

    def _accept_abort(self, process: Process, act: Act) -> None:
        self._router.accept(
            process,
            AbortReq(
                rid=act.rid,
                reason=AbortReason.CLIENT_ABORT,
                origin=AbortOrigin.OPERATOR,
                received_ns=self._world.clock.now_ns,
                prefix=act.kind is ActKind.ABORT_PREFIX,
                abort_all=act.kind is ActKind.ABORT_ALL,
            ),
        )
