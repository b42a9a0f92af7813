"""``POST /generate``: one request from its body to its one terminal answer.

The headers of a stream wait for the first output or error. So an abort before the first token answers
with its own HTTP status (500, 503, 504), which a router passes on; SGLang always answers 200 there.
"""

from __future__ import annotations

import asyncio
import time
import uuid

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from engine.core.codes import AbortOrigin, AbortReason, DisaggregationMode
from engine.core.io_struct import RefusedReq, TokenizedGenerateReqInput
from engine.errors import InputTooLong, RequestError, UnavailableError
from engine.model.tokenizer import Tokenizer
from engine.server.answers import abort_error, generate_answer, request_error, unavailable
from engine.server.asgi import SseWriter, error_response, header, json_response, read_body
from engine.server.generate_body import (
    GenerateBody,
    make_sampling_params,
    parse_generate,
    rendezvous_of,
)
from engine.server.req_state import ReqState
from engine.server.tokenizer_manager import TokenizerManager
from engine.telemetry.context import parse_traceparent

ROOM_MISSING = "Invalid request: Disaggregated request received without bootstrap room id."


class GenerateEndpoint:
    """A plain ASGI application: middleware that wraps ``receive`` would hide disconnects."""

    def __init__(
        self, manager: TokenizerManager, tokenizer: Tokenizer, default_bootstrap_port: int
    ) -> None:
        self._manager = manager
        self._tokenizer = tokenizer
        self._default_bootstrap_port = default_bootstrap_port or None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received_ns = time.monotonic_ns()
        body = b""
        try:
            body = await read_body(scope, receive)
            state = self._start(body, header(scope, b"traceparent"), received_ns)
        except ClientDisconnect:
            return
        except RequestError as error:
            self._refuse(body, error)
            await error_response(request_error(error))(scope, receive, send)
            return
        except UnavailableError as error:
            await error_response(unavailable(str(error)))(scope, receive, send)
            return
        await self._serve(state, scope, receive, send)

    def _refuse(self, body: bytes, error: RequestError) -> None:
        """The router sent the same body to the other half, which may have found nothing wrong with it."""
        other = rendezvous_of(body)
        if other is None or self._manager.mode is DisaggregationMode.UNIFIED:
            return
        too_long = isinstance(error, InputTooLong)
        self._manager.refuse(
            RefusedReq(
                bootstrap_room=other.bootstrap_room,
                bootstrap_host=other.bootstrap_host,
                bootstrap_port=other.bootstrap_port or self._default_bootstrap_port,
                reason=AbortReason.INPUT_TOO_LONG if too_long else AbortReason.TRANSFER_FAILED,
                message=f"{self._manager.mode} refused the request: {error}",
            )
        )

    async def _serve(self, state: ReqState, scope: Scope, receive: Receive, send: Send) -> None:
        watcher = asyncio.create_task(self._watch_client(state, receive))
        try:
            if state.stream:
                await self._stream(state, scope, receive, send)
            else:
                await self._answer(state, scope, receive, send)
        finally:
            watcher.cancel()
            # Only a cancelled handler comes here with an open request: the server is going down.
            if not state.client_gone:
                self._manager.abort(state, AbortReason.SHUTDOWN, AbortOrigin.OPERATOR)

    async def _watch_client(self, state: ReqState, receive: Receive) -> None:
        """Turn the client's disconnect into one abort, whatever the handler is doing."""
        while (await receive())["type"] != "http.disconnect":
            pass
        state.client_gone = True
        self._manager.abort(state, AbortReason.CLIENT_DISCONNECT, AbortOrigin.CLIENT)
        state.changed.set()

    async def _answer(self, state: ReqState, scope: Scope, receive: Receive, send: Send) -> None:
        while state.finish is None and not state.client_gone:
            await state.next_change()
        if state.client_gone or state.finish is None:
            return
        abort = state.finish.abort
        error = abort_error(abort, state.rid) if abort else None
        response = (
            error_response(error)
            if error
            else json_response(generate_answer(state, self._tokenizer, state.ended_ns))
        )
        await response(scope, receive, send)

    async def _stream(self, state: ReqState, scope: Scope, receive: Receive, send: Send) -> None:
        writer = SseWriter(send)
        while not state.client_gone:
            await state.next_change()
            if state.client_gone:
                return
            abort = state.finish.abort if state.finish else None
            error = abort_error(abort, state.rid) if abort else None
            if error is not None and not writer.started:
                await error_response(error)(scope, receive, send)
                return
            if error is not None:
                await writer.event(error)
                await writer.done()
                return
            ended = state.finish is not None
            if ended or len(state.tokens) > state.num_sent:
                state.num_sent = len(state.tokens)
                await writer.event(generate_answer(state, self._tokenizer, time.monotonic_ns()))
            if ended:
                await writer.done()
                return

    # ---- from a body to a started request -----------------------------------------------------

    def _start(self, raw: bytes, traceparent: str | None, received_ns: int) -> ReqState:
        ready = self._manager.require_serving()
        body = parse_generate(raw)
        room = self._room(body)
        input_ids = self._input_ids(body, ready.vocab_size)
        state = ReqState(
            rid=body.rid or _new_rid(room),
            room=room,
            num_prompt_tokens=len(input_ids),
            sampling_params=make_sampling_params(body.sampling_params),
            received_ns=received_ns,
            tokenized_ns=time.monotonic_ns(),
            stream=bool(body.stream),
            return_logprob=bool(body.return_logprob),
            top_logprobs_num=body.top_logprobs_num or 0,
            parent=parse_traceparent(traceparent),
            prompt_field="input_ids" if body.text is None else "text",
        )
        self._manager.start(state, self._to_scheduler(state, body, tuple(input_ids)))
        return state

    def _room(self, body: GenerateBody) -> int | None:
        if self._manager.mode is DisaggregationMode.UNIFIED:
            return None
        if body.bootstrap_room is None:
            raise RequestError("bootstrap_room", ROOM_MISSING)
        if self._manager.mode is DisaggregationMode.DECODE and not body.bootstrap_host:
            raise RequestError("bootstrap_host", "is missing; a router in PD mode sets it")
        return body.bootstrap_room

    def _input_ids(self, body: GenerateBody, vocab_size: int) -> list[int]:
        if body.text is not None:
            try:
                return self._tokenizer.encode(body.text)
            except UnicodeEncodeError:
                raise RequestError("text", "has a lone surrogate, which is no character") from None
        input_ids = body.input_ids or []
        for index, token_id in enumerate(input_ids):
            if not 0 <= token_id < vocab_size:
                raise RequestError(
                    f"input_ids[{index}]", f"{token_id} is no token id; there are {vocab_size}"
                )
        return input_ids

    def _to_scheduler(
        self, state: ReqState, body: GenerateBody, input_ids: tuple[int, ...]
    ) -> TokenizedGenerateReqInput:
        has_room = state.room is not None
        return TokenizedGenerateReqInput(
            rid=state.rid,
            input_ids=input_ids,
            sampling_params=state.sampling_params,
            received_ns=state.received_ns,
            bootstrap_host=body.bootstrap_host if has_room else None,
            bootstrap_port=body.bootstrap_port or self._default_bootstrap_port
            if has_room
            else None,
            bootstrap_room=state.room,
            top_logprobs_num=state.top_logprobs_num,
            deadline_ns=_deadline_ns(state.received_ns, body.deadline_s),
        )


def _deadline_ns(received_ns: int, deadline_s: float | None) -> int:
    return 0 if deadline_s is None else received_ns + int(deadline_s * 1e9)


def _new_rid(room: int | None) -> str:
    """Without a rid both halves take it from their room, so that it is one rid after all."""
    return uuid.uuid4().hex if room is None else f"room-{room}"
