"""`TokenizerManager`: open requests of the HTTP process, and all traffic with the scheduler.

Every request that was started ends exactly once, in `_end`: by the scheduler's last output, or here when
the scheduler is gone. The event loop is the only thread that touches any of this.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, DisaggregationMode, Stage
from engine.core.io_struct import (
    AbortInfo,
    AbortReq,
    ControlResp,
    FinishReason,
    FromScheduler,
    GaugeSample,
    RefusedReq,
    SchedulerBeat,
    SchedulerReady,
    TokenizedGenerateReqInput,
    TokenOut,
    TraceRecord,
)
from engine.errors import InputTooLong, RequestError, UnavailableError
from engine.server.control_client import ControlClient
from engine.server.early_aborts import EarlyAborts
from engine.server.ipc import SchedulerLink
from engine.server.observer import RequestObserver
from engine.server.req_state import AbortNote, ReqState
from engine.server.watch import SchedulerWatch
from engine.telemetry.metrics import EngineMetrics

logger = logging.getLogger(__name__)


class TokenizerManager:
    """`rid_to_state` holds every request between its start and its terminal answer, by rid and room.

    A router repeats a rid with a fresh room, so one rid may be open several times.
    """

    def __init__(
        self,
        *,
        mode: DisaggregationMode,
        link: SchedulerLink,
        observer: RequestObserver,
        metrics: EngineMetrics,
    ) -> None:
        self.mode = mode
        self.watch = SchedulerWatch()
        self.control = ControlClient(link)
        self.rid_to_state: dict[str, dict[int | None, ReqState]] = {}
        self.num_unknown_outputs = 0
        self.early_aborts = EarlyAborts()
        self._link = link
        self._observer = observer
        self._metrics = metrics
        self._drained = asyncio.Event()
        self._drained.set()

    # ---- requests ---------------------------------------------------------------------------

    def require_serving(self) -> SchedulerReady:
        """Raises `UnavailableError` while loading and once the worker is going down."""
        if self.watch.down is not None:
            raise UnavailableError(self.watch.down)
        if self.watch.ready is None:
            raise UnavailableError("the model is still loading; try again when /health is 200")
        return self.watch.ready

    def start(self, state: ReqState, request: TokenizedGenerateReqInput) -> None:
        """Take a request and send it to the scheduler.

        Raises `RequestError` if it does not fit or its (rid, room) is open, `UnavailableError` if the
        scheduler takes nothing. Nothing is left behind then. A request that its own abort has overtaken
        is sent and aborted at once, so that its other half hears of it too.
        """
        ready = self.require_serving()
        rooms = self.rid_to_state.get(state.rid, {})
        if state.room in rooms:
            raise RequestError("rid", f"{state.rid} is open already; wait for it or abort it")
        self._check_length(state, ready.context_length)
        self._link.send(request)
        self.rid_to_state.setdefault(state.rid, {})[state.room] = state
        self._drained.clear()
        if self.early_aborts.was_aborted(state.rid, time.monotonic_ns()):
            self.abort(state, AbortReason.CLIENT_ABORT, AbortOrigin.CLIENT)

    def abort(self, state: ReqState, reason: AbortReason, origin: AbortOrigin) -> None:
        """Accept an abort: no more output from now on, and the scheduler is told once."""
        if state.finish is not None or state.abort is not None:
            return
        now_ns = time.monotonic_ns()
        message = "Aborted" if origin is AbortOrigin.CLIENT else f"Aborted: {reason}"
        note = AbortNote(reason=reason, origin=origin, message=message, received_ns=now_ns)
        state.accept_abort(note)
        self._send_abort(
            AbortReq(
                rid=state.rid,
                bootstrap_room=state.room,
                reason=reason,
                origin=origin,
                received_ns=now_ns,
                message=message,
            )
        )

    def matches(self, rid: str, *, prefix: bool, abort_all: bool) -> list[ReqState]:
        """Open requests that an abort names; rids are compared whole unless ``prefix``."""
        if abort_all:
            return list(self._states())
        if prefix:
            return [state for state in self._states() if state.rid.startswith(rid)]
        return list(self.rid_to_state.get(rid, {}).values())

    @property
    def num_open(self) -> int:
        return sum(len(rooms) for rooms in self.rid_to_state.values())

    # ---- going down -------------------------------------------------------------------------

    def abort_all_for_shutdown(self, why: str) -> None:
        """Take nothing new and abort everything, with one message to the scheduler."""
        self.watch.down = why
        now_ns = time.monotonic_ns()
        note = AbortNote(
            reason=AbortReason.SHUTDOWN,
            origin=AbortOrigin.OPERATOR,
            message=why,
            received_ns=now_ns,
        )
        if not self.rid_to_state:
            return
        for state in self._states():
            if state.abort is None:
                state.accept_abort(note)
        self._send_abort(
            AbortReq(
                rid="",
                abort_all=True,
                reason=note.reason,
                origin=note.origin,
                received_ns=now_ns,
                message=why,
            )
        )

    def end_all(self, why: str) -> None:
        """The scheduler will not answer any more: end every open request here and now."""
        self.watch.down = why
        note = AbortNote(
            reason=AbortReason.SHUTDOWN,
            origin=AbortOrigin.SERVER,
            message=why,
            received_ns=time.monotonic_ns(),
        )
        for state in list(self._states()):
            self._end(state, self._local_abort(state, state.abort or note), None)

    async def drained(self, timeout_s: float) -> bool:
        """Wait until no request is open; False if that takes longer than ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()
        except TimeoutError:
            return False
        return True

    # ---- from the scheduler -----------------------------------------------------------------

    async def receive_forever(self) -> None:
        """Handle the scheduler's messages until cancelled."""
        while True:
            self.on_message(await self._link.receive())

    def on_message(self, message: FromScheduler) -> None:
        now_ns = time.monotonic_ns()
        match message:
            case TokenOut():
                self._on_tokens(message, now_ns)
            case ControlResp():
                self.control.on_response(message)
            case SchedulerBeat():
                self.watch.on_beat(message, now_ns)
            case GaugeSample():
                self._metrics.set_gauges(message.values)
                self._metrics.set_peers(message.peers, message.peer_changes)
            case SchedulerReady():
                self.watch.on_ready(message, now_ns)
                logger.info("ready: %d KV pages of %d tokens", message.num_pages, message.page_size)

    def _on_tokens(self, out: TokenOut, now_ns: int) -> None:
        state = self.rid_to_state.get(out.rid, {}).get(out.bootstrap_room)
        if state is None:
            self.num_unknown_outputs += 1
            return
        state.num_cached_tokens = max(state.num_cached_tokens, out.num_cached_tokens)
        state.take_tokens(out.tokens, now_ns)
        if out.finish is None:
            state.changed.set()
            return
        finish = out.finish
        if state.abort is not None and finish.abort is None:
            # It ended before the scheduler saw the abort, but the client was cut off at the abort.
            finish = self._local_abort(state, state.abort)
        self._end(state, finish, out.trace)

    # ---- one ending -------------------------------------------------------------------------

    def _end(self, state: ReqState, finish: FinishReason, record: TraceRecord | None) -> None:
        rooms = self.rid_to_state[state.rid]
        del rooms[state.room]
        if not rooms:
            del self.rid_to_state[state.rid]
        if not self.rid_to_state:
            self._drained.set()
        state.end(finish, time.monotonic_ns())
        self.early_aborts.note_end(state.rid, state.ended_ns)
        self._observer.request_ended(state, record)

    def _local_abort(self, state: ReqState, note: AbortNote) -> FinishReason:
        """An abort that only this side knows of."""
        info = AbortInfo(
            reason=note.reason,
            origin=note.origin,
            via=AbortVia.LOCAL,
            stage=self._likely_stage(state),
            message=note.message,
            received_ns=note.received_ns,
            released_ns=time.monotonic_ns(),
        )
        return FinishReason(type="abort", abort=info)

    def _likely_stage(self, state: ReqState) -> Stage:
        """This side sees tokens only: running once there is one, else the role's first queue."""
        if self.mode is DisaggregationMode.PREFILL:
            return Stage.TRANSFER if state.first_token_ns else Stage.QUEUE
        if state.first_token_ns:
            return Stage.RUNNING
        return Stage.PREALLOC if self.mode is DisaggregationMode.DECODE else Stage.QUEUE

    def _check_length(self, state: ReqState, limit: int) -> None:
        wanted = state.num_prompt_tokens + state.sampling_params.max_new_tokens
        if wanted <= limit:
            return
        message = (
            f"{state.num_prompt_tokens} prompt tokens and max_new_tokens "
            f"{state.sampling_params.max_new_tokens} exceed the context of {limit} tokens"
        )
        now_ns = time.monotonic_ns()
        info = AbortInfo(
            reason=AbortReason.INPUT_TOO_LONG,
            origin=AbortOrigin.SERVER,
            via=AbortVia.LOCAL,
            stage=Stage.TOKENIZE,
            message=message,
            received_ns=now_ns,
            released_ns=now_ns,
        )
        state.end(FinishReason(type="abort", abort=info), now_ns)
        self._observer.request_ended(state, None)
        too_long = state.num_prompt_tokens >= limit
        raise InputTooLong(
            state.prompt_field if too_long else "sampling_params.max_new_tokens", message, limit
        )

    def refuse(self, message: RefusedReq) -> None:
        """A request was refused here: the scheduler tells its other half."""
        try:
            self._link.send(message)
        except UnavailableError as error:
            logger.warning("room %d: refusal not told: %s", message.bootstrap_room, error)

    def _send_abort(self, message: AbortReq) -> None:
        try:
            self._link.send(message)
        except UnavailableError as error:
            logger.warning("abort of %s not sent: %s", message.rid or "all requests", error)

    def _states(self) -> Iterator[ReqState]:
        for rooms in self.rid_to_state.values():
            yield from rooms.values()
