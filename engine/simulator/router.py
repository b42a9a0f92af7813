"""`Router`: clients and router in one. Sends to both halves, carries aborts, sees connections die."""

from __future__ import annotations

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import AbortReq, SamplingParams, TokenizedGenerateReqInput
from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.history import HalfRecord, History
from engine.simulator.process import Process, World
from engine.simulator.schedule import Abort, Half, Request
from engine.simulator.workload import prompt_of

ABORT_RETRY_NS = 50 * MS_NS
ABORT_TRIES = 4


class Router:
    """Everything that comes from outside, at its time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clock = world.clock
        self._history: History = world.history
        self.num_unsent = 0

    def plan(self, request: Request) -> None:
        """Put a request and its aborts on the clock."""
        at_ns = START_NS + request.at_ms * MS_NS
        lag_ns = request.lag_ms * MS_NS
        for half, name, late_ns in (
            (Half.PREFILL, f"p{request.prefill}", max(0, -lag_ns)),
            (Half.DECODE, f"d{request.decode}", max(0, lag_ns)),
        ):
            if request.half in (half, Half.BOTH):
                self.num_unsent += 1
                self._clock.at(at_ns + late_ns, self._send, name, request)
            for abort in request.aborts:
                if abort.half in (half, Half.BOTH):
                    when_ns = START_NS + abort.at_ms * MS_NS
                    self._clock.at(when_ns, self._abort, name, request, abort, ABORT_TRIES)

    def _send(self, name: str, request: Request) -> None:
        self.num_unsent -= 1
        process = self._world.workers[name].process
        incarnation = process.core.config.incarnation if process else ""
        record = HalfRecord(name, incarnation, request, self._clock.now_ns)
        self._history.begin(record)
        if process is None:
            self.connection_lost(record)
            return
        self._history.note(self._clock.now_ns, name, f"request {request.rid}/{request.room}")
        process.run(self._accept, process, record)

    def _accept(self, process: Process, record: HalfRecord) -> None:
        request = record.request
        record.accepted = True
        record.arrived_ns = self._clock.now_ns
        process.submit(
            TokenizedGenerateReqInput(
                rid=request.rid,
                input_ids=prompt_of(request.room, request.num_tokens),
                sampling_params=SamplingParams(max_new_tokens=request.max_new_tokens),
                received_ns=self._clock.now_ns,
                bootstrap_host=f"p{request.prefill}",
                bootstrap_port=1,
                bootstrap_room=request.room,
                deadline_ns=self._clock.now_ns + request.deadline_ms * MS_NS
                if request.deadline_ms
                else 0,
            )
        )

    def _abort(self, name: str, request: Request, abort: Abort, tries: int) -> None:
        """A client repeats an abort that matched nothing, for a while. One that comes after the end is
        sent too; only a connection that is closed already cannot be closed again."""
        record = self._history.halves.get((name, request.rid, request.room))
        process = self._world.workers[name].process
        if record is None:
            if tries:
                self._clock.after(ABORT_RETRY_NS, self._abort, name, request, abort, tries - 1)
        elif process is not None and not (record.is_answered and abort.disconnect):
            process.run(self._accept_abort, process, request, abort)

    def _accept_abort(self, process: Process, request: Request, abort: Abort) -> None:
        reason = AbortReason.CLIENT_DISCONNECT if abort.disconnect else AbortReason.CLIENT_ABORT
        self.accept(
            process,
            AbortReq(
                rid=request.rid,
                reason=reason,
                origin=AbortOrigin.CLIENT,
                received_ns=self._clock.now_ns,
                bootstrap_room=request.room if abort.disconnect else None,
            ),
        )

    def accept(self, process: Process, abort: AbortReq) -> None:
        """From here on the clients get no more tokens of what this matches."""
        now_ns = self._clock.now_ns
        matched = [
            record
            for record in self._history.open_at(process.name)
            if record.accepted and _means(abort, record)
        ]
        for record in matched:
            record.abort_ns = record.abort_ns or now_ns
        what = f"{abort.reason} {'*' if abort.abort_all else abort.rid}{'*' * abort.prefix}"
        self._history.note(now_ns, process.name, f"{what}: {len(matched)} matched")
        process.submit(abort)

    def process_died(self, name: str) -> None:
        """Every client that waits for ``name`` finds its connection closed."""
        for record in self._history.open_at(name):
            self.connection_lost(record)

    def connection_lost(self, record: HalfRecord) -> None:
        record.connection_lost = True
        record.ended_ns = self._clock.now_ns
        self._history.closed(record)
        self._history.note(self._clock.now_ns, record.worker, f"{record.name}: connection lost")


def _means(abort: AbortReq, record: HalfRecord) -> bool:
    """Does the client who sends this mean that request? Written apart from core's own answer."""
    if abort.abort_all:
        return True
    rid, room = record.request.rid, record.request.room
    is_rid = rid[: len(abort.rid)] == abort.rid if abort.prefix else rid == abort.rid
    return is_rid and (abort.bootstrap_room is None or abort.bootstrap_room == room)
