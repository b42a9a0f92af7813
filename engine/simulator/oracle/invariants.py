"""`StepOracle`: what must hold at every step. Conservation in O(1); a sampled full scan; every answer."""

from __future__ import annotations

import zlib
from typing import cast

from engine.core.codes import DisaggregationMode, KVPoll
from engine.core.disagg import DisaggScheduler
from engine.core.io_struct import ControlResp, TokenOut
from engine.core.ledger import Resource
from engine.core.peer import SendKv
from engine.core.scheduler import Scheduler
from engine.simulator.clock import MS_NS, START_NS
from engine.simulator.forward import RunningForward
from engine.simulator.history import Call, HalfRecord
from engine.simulator.oracle.forwards import ForwardOracle
from engine.simulator.oracle.legal import LegalEnds
from engine.simulator.oracle.violation import BrokenLaw, Law, Violation
from engine.simulator.process import Process, World
from engine.simulator.runner import expected_tokens
from engine.simulator.schedule import Topology
from engine.simulator.workload import prompt_of

SCAN_PERIOD = 32
"""Steps of the whole fleet, with something new in them, between two full scans."""


class StepOracle:
    """Implements `engine.simulator.process.Observer`; raises BrokenLaw at the first violation."""

    def __init__(self, world: World, topology: Topology, check_period: int = 1) -> None:
        self._world = world
        self._check_period = check_period
        self._expected: dict[int, tuple[int, ...]] = {}
        self._legal = LegalEnds(topology, world.history)
        self._forwards = ForwardOracle(world.history)
        self._paused_ns: dict[str, int] = {}
        self.num_steps = 0
        self.num_checked = 0
        self.digest = 0

    @property
    def num_cancelled(self) -> int:
        return self._forwards.num_cancelled

    def broken(self, law: Law, text: str) -> BrokenLaw:
        at_ms = (self._world.clock.now_ns - START_NS) // MS_NS
        return BrokenLaw(Violation(law=law, at_ms=at_ms, text=text))

    # ---- answers ---------------------------------------------------------------------------------

    def on_out(self, process: Process, out: TokenOut) -> None:
        room = out.bootstrap_room
        assert room is not None
        record = self._world.history.halves[(process.name, out.rid, room)]
        self._note(process, record, out)
        if record.is_answered:
            raise self.broken(Law.ONE_ANSWER, f"{record.name} hears more after its answer")
        if out.tokens and record.abort_ns:
            raise self.broken(
                Law.NO_TOKEN_AFTER_ABORT, f"{record.name} got a token after its abort"
            )
        for token in out.tokens:
            record.tokens.append(token.token_id)
        if out.tokens:
            self._check_tokens(record)
            self._check_paused(process, record)
        if out.finish is not None:
            record.finish = out.finish
            record.ended_ns = self._world.clock.now_ns
            self._world.history.closed(record)
            self._check_finish(process, record)

    def _note(self, process: Process, record: HalfRecord, out: TokenOut) -> None:
        now_ns = self._world.clock.now_ns
        reason = out.finish and (out.finish.abort.reason if out.finish.abort else out.finish.type)
        ids = [token.token_id for token in out.tokens]
        text = f"{now_ns} {process.name} {out.rid} {out.bootstrap_room} {ids} {reason}"
        self.digest = zlib.crc32(text.encode(), self.digest)
        if self._world.history.keeps_log:
            abort = out.finish.abort if out.finish else None
            why = f" ({abort.via}, {abort.stage}: {abort.message})" if abort else ""
            what = f"{record.request.rid}/{record.request.room} tokens {ids}"
            end = f" END {reason}{why}" if reason else ""
            self._world.history.note(now_ns, process.name, what + end)

    def expected(self, record: HalfRecord) -> tuple[int, ...]:
        request = record.request
        found = self._expected.get(request.room)
        if found is None:
            prompt = prompt_of(request.room, request.num_tokens)
            found = expected_tokens(prompt, request.max_new_tokens)
            self._expected[request.room] = found
        return found

    def _check_tokens(self, record: HalfRecord) -> None:
        want = self.expected(record)[: len(record.tokens)]
        if tuple(record.tokens) != want:
            text = f"{record.name} answered {record.tokens}, should be {list(want)}"
            raise self.broken(Law.RIGHT_TOKENS, text)

    def _check_paused(self, process: Process, record: HalfRecord) -> None:
        """Transfers go on while generation is paused, and a transfer's end brings the first token."""
        paused_ns = self._paused_ns.get(process.core.config.incarnation)
        is_paused = paused_ns is not None and self._world.clock.now_ns > paused_ns
        if is_paused and len(record.tokens) > 1:
            text = f"{record.name} got a token while {process.name} was paused"
            raise self.broken(Law.NO_TOKEN_WHILE_PAUSED, text)

    def on_control(self, process: Process, answer: ControlResp) -> None:
        call = self._world.history.calls.pop(answer.id, None)
        if call is None:
            raise self.broken(Law.ONE_ANSWER, f"{process.name} answered call {answer.id} again")
        incarnation = process.core.config.incarnation
        match call.op:
            case "pause":
                self._paused_ns[incarnation] = self._world.clock.now_ns
            case "continue":
                self._paused_ns.pop(incarnation, None)
            case _ if b"true" in answer.body:
                self._check_flushed(process, call)

    def _check_flushed(self, process: Process, call: Call) -> None:
        for record in self._world.history.open_at(process.name):
            if record.accepted and record.arrived_ns < call.at_ns:
                text = f"{process.name} says that it is flushed, {record.name} is open"
                raise self.broken(Law.FLUSH_IS_HONEST, text)

    def _check_finish(self, process: Process, record: HalfRecord) -> None:
        core, request = process.core, record.request
        abort = record.finish.abort if record.finish is not None else None
        if abort is not None:
            wrong = self._legal.whats_wrong(record, abort, self._world.clock.now_ns)
            if wrong is not None:
                text = f"{record.name} ended with {abort.reason} ({abort.message}): {wrong}"
                raise self.broken(Law.LEGAL_END, text)
        if record.completed and record.abort_ns:
            raise self.broken(Law.ABORT_HEEDED, f"{record.name} completed after its abort")
        whole = len(record.tokens) == len(self.expected(record))
        if record.completed and core.role is DisaggregationMode.DECODE and not whole:
            raise self.broken(Law.RIGHT_TOKENS, f"{record.name} ended early: {record.tokens}")
        self._check_released(core, record)
        room = core.rooms.get(request.room)
        if room is not None and room.has_request:
            text = f"{record.name} was answered, its room is {room.state.name}"
            raise self.broken(Law.ROOM_CLOSED_AT_ANSWER, text)

    def _check_released(self, core: Scheduler, record: HalfRecord) -> None:
        owner, ledger = f"{record.request.rid}/{record.request.room}", core.pools.ledger
        if owner not in ledger.owners():
            return
        for holder in ledger.holders():
            if holder.owner == owner and holder.resource != Resource.STAGING_PAGES:
                text = f"{record.name} was answered and holds {holder.count} {holder.resource}"
                raise self.broken(Law.RELEASED_AT_ANSWER, text)

    def on_send(self, process: Process, send: SendKv) -> None:
        rid, _, room = send.owner.rpartition("/")
        record = self._world.history.halves[(process.name, rid, int(room))]
        if record.abort_ns or record.is_answered:
            text = f"{record.name} sends pages {send.header.first_page}.. after its abort"
            raise self.broken(Law.NO_PAGES_AFTER_ABORT, text)

    # ---- steps -----------------------------------------------------------------------------------

    def on_forward_end(self, process: Process, forward: RunningForward) -> None:
        wrong = self._forwards.on_end(process, forward, self._world.clock.now_ns)
        if wrong is not None:
            raise self.broken(Law.STOPPED_BY_LAYER, wrong)

    def after_step(self, process: Process, has_news: bool) -> None:
        self.num_steps += 1
        if not has_news:
            return
        self.num_checked += 1
        left = self._forwards.after_step(process)
        if left is not None:
            raise self.broken(Law.FREED_NEXT_STEP, left)
        if self.num_checked % self._check_period:
            return
        self._check_conservation(process)
        if len(process.core.rooms):
            self._check_peers(process.name, cast(DisaggScheduler, process.core))
        if self.num_checked % (SCAN_PERIOD * self._check_period) == 0:
            self.scan(process)

    def _check_conservation(self, process: Process) -> None:
        pools = process.core.pools
        ledger = pools.ledger
        for pool in (pools.kv_pages, pools.req_slots, pools.metadata_slots, pools.staging):
            if pool.num_free + ledger.num_held(pool.resource) != pool.total:
                raise self.broken(Law.CONSERVATION, f"{process.name}: {pool.conservation()}")
        if ledger.violations:
            raise self.broken(Law.ONE_OWNER, f"{process.name}: {ledger.violations[0]}")

    def _check_peers(self, name: str, core: DisaggScheduler) -> None:
        peers = core.peers
        is_prefill = core.role is DisaggregationMode.PREFILL
        for room in core.rooms.open_rooms():
            if not room.joined or room.state in (KVPoll.Failed, KVPoll.Success):
                continue
            incarnation = peers.get(room.peer or "")
            if incarnation is None:
                text = f"{name}: room {room.room} outlives its peer {room.peer}"
                raise self.broken(Law.LOST_PEER_ACTED_ON, text)
            if is_prefill and room.attempt and room.attempt.incarnation != incarnation:
                text = f"{name}: room {room.room} belongs to {room.attempt}, not to {incarnation}"
                raise self.broken(Law.FENCED, text)

    def scan(self, process: Process) -> None:
        """Everything that is held has a living owner; nothing is free and held."""
        core = process.core
        broken = core.pools.full_scan()
        if broken:
            raise self.broken(Law.ONE_OWNER, f"{process.name}: {broken[0]}")
        strangers = _strangers(core)
        if strangers:
            text = f"{process.name}: {', '.join(strangers)} holds, but is gone"
            raise self.broken(Law.RELEASED_AT_ANSWER, text)


def _strangers(core: Scheduler) -> list[str]:
    """Owners of anything but staging space whose request is gone."""
    owners = {req.owner for req in core.reqs.values()}
    return [
        f"{holder.owner} ({holder.resource})"
        for holder in core.pools.ledger.holders()
        if holder.owner not in owners and holder.resource != Resource.STAGING_PAGES
    ]
