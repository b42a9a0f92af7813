"""``/health`` and ``/health_generate``: is the scheduler loop alive, and does it really generate?"""

from __future__ import annotations

import asyncio
import secrets
import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from engine.core.codes import AbortOrigin, AbortReason, DisaggregationMode
from engine.core.io_struct import SamplingParams, TokenizedGenerateReqInput
from engine.errors import UnavailableError
from engine.server.answers import unavailable
from engine.server.asgi import error_response, json_response
from engine.server.req_state import ReqState
from engine.server.tokenizer_manager import TokenizerManager

FAKE_BOOTSTRAP_HOST = "2.2.2.2"
"""SGLang's address of a peer that is not there: the scheduler runs such a request on its own."""
PROBE_TIMEOUT_S = 20.0


class HealthBody(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    step: int


class HealthRoutes:
    """Both probes."""

    def __init__(self, manager: TokenizerManager) -> None:
        self._manager = manager

    async def health(self, request: Request) -> Response:
        """200 while the scheduler beats, 503 with the reason otherwise."""
        trouble = self._manager.watch.trouble(time.monotonic_ns())
        if trouble is not None:
            return error_response(unavailable(trouble))
        return self._ok()

    async def health_generate(self, request: Request) -> Response:
        """200 after one token was really generated within 20 s, 503 otherwise."""
        try:
            state = self._start_probe()
        except UnavailableError as error:
            return error_response(unavailable(str(error)))
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                while state.finish is None:
                    await state.next_change()
        except TimeoutError:
            return error_response(unavailable(f"no token in {PROBE_TIMEOUT_S:g} s"))
        finally:
            self._manager.abort(state, AbortReason.DEADLINE, AbortOrigin.CLIENT)
        if state.finish.abort is not None:
            return error_response(unavailable(f"the probe failed: {state.finish.abort.message}"))
        return self._ok()

    def _ok(self) -> Response:
        return json_response(HealthBody(status="ok", step=self._manager.watch.step))

    def _start_probe(self) -> ReqState:
        paired = self._manager.mode is not DisaggregationMode.UNIFIED
        now_ns = time.monotonic_ns()
        state = ReqState(
            rid=f"HEALTH_CHECK_{secrets.token_hex(8)}",
            room=secrets.randbits(62) if paired else None,
            num_prompt_tokens=1,
            sampling_params=SamplingParams(max_new_tokens=1, ignore_eos=True),
            received_ns=now_ns,
            tokenized_ns=now_ns,
            is_probe=True,
        )
        request = TokenizedGenerateReqInput(
            rid=state.rid,
            input_ids=(0,),
            sampling_params=state.sampling_params,
            received_ns=now_ns,
            bootstrap_host=FAKE_BOOTSTRAP_HOST if paired else None,
            bootstrap_port=None,
            bootstrap_room=state.room,
        )
        self._manager.start(state, request)
        return state
