"""What an operator calls: aborts, pause and continue, flush, and views of the scheduler's state."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from engine.core.codes import AbortOrigin, AbortReason
from engine.errors import RequestError
from engine.server.answers import plain_error
from engine.server.asgi import error_response, json_response, raw_json_response, read_body
from engine.server.auth import may_operate, refusal
from engine.server.early_aborts import KEEP_NS
from engine.server.generate_body import MAX_RID, decode_body
from engine.server.keys import ApiKeys
from engine.server.tokenizer_manager import TokenizerManager

FLUSH_TIMEOUT_S = 10.0


class AbortBody(msgspec.Struct, frozen=True, kw_only=True):
    """``rid`` is compared whole unless ``prefix``; ``abort_all`` needs none. Rids are as short as those of
    ``/generate``: one that is not open is remembered for a moment."""

    rid: Annotated[str, msgspec.Meta(max_length=MAX_RID)] | None = None
    prefix: bool | None = None
    abort_all: bool | None = None


class AbortAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``matched``: open requests hit, those that are being aborted already included."""

    matched: int
    message: str


class AdminRoutes:
    """Routes that change or show the scheduler; answers of the scheduler pass through as they are."""

    def __init__(self, manager: TokenizerManager, worker_name: str, keys: ApiKeys) -> None:
        self._manager = manager
        self._worker_name = worker_name
        self._keys = keys

    async def abort_request(self, request: Request) -> Response:
        """Abort by rid, by prefix, or everything; the last two may hit others and are an admin's.

        A rid that is not open is remembered for two seconds, in case its request is still on the way.
        """
        body = decode_body(await read_body(request.scope, request.receive), AbortBody)
        hits_others = body.prefix or body.abort_all
        if hits_others and not may_operate(self._keys, request.scope):
            return refusal(request.scope)
        if not body.rid and not body.abort_all:
            raise RequestError("rid", "is empty; give a rid, or abort_all: true")
        states = self._manager.matches(
            body.rid or "", prefix=bool(body.prefix), abort_all=bool(body.abort_all)
        )
        for state in states:
            self._manager.abort(state, AbortReason.CLIENT_ABORT, AbortOrigin.CLIENT)
        is_early = False
        if body.rid and not (states or body.prefix or body.abort_all):
            is_early = self._manager.early_aborts.note_abort(body.rid, time.monotonic_ns())
        return json_response(_abort_answer(body, len(states), is_early))

    async def pause_generation(self, request: Request) -> Response:
        """Stop forming batches; aborts still work."""
        return raw_json_response(await self._manager.control.ask("pause"))

    async def continue_generation(self, request: Request) -> Response:
        """Go on after a pause."""
        return raw_json_response(await self._manager.control.ask("continue"))

    async def flush_cache(self, request: Request) -> Response:
        """Empty the cache: 200 if the worker was idle, 400 if it was not (as SGLang)."""
        body = await self._manager.control.ask("flush", timeout_s=FLUSH_TIMEOUT_S)
        answer = msgspec.json.decode(body, type=dict[str, object]) if body else {}
        return raw_json_response(body or b"{}", 200 if answer.get("flushed", True) else 400)

    async def loads(self, request: Request) -> Response:
        """Queue lengths and free pages."""
        self._manager.require_serving()
        return raw_json_response(await self._manager.control.ask("loads"))

    async def request_view(self, request: Request) -> Response:
        """Stage, chunk and pages of a rid, one entry a room; 404 if the scheduler has none."""
        self._manager.require_serving()
        rid = request.path_params["rid"]
        body = await self._manager.control.ask("request", rid)
        if not body:
            return error_response(plain_error(f"rid: no open request is named {rid}", 404))
        return raw_json_response(body)

    async def ledger(self, request: Request) -> Response:
        """Who holds which memory, beside the allocators' own counts, and open HTTP-side requests."""
        self._manager.require_serving()
        body = await self._manager.control.ask("ledger")
        view = msgspec.json.decode(body, type=dict[str, object])
        view |= {"worker": self._worker_name, "rid_to_state": self._manager.num_open}
        return raw_json_response(msgspec.json.encode(view))


def _abort_answer(body: AbortBody, matched: int, is_early: bool) -> AbortAnswer:
    if matched:
        plural = "request is" if matched == 1 else "requests are"
        return AbortAnswer(matched=matched, message=f"{matched} {plural} being aborted")
    what = "no request is open" if body.abort_all else f"no open request matches {body.rid}"
    if is_early:
        keep_s = KEEP_NS / 1e9
        return AbortAnswer(
            matched=0, message=f"{what}; one that arrives within {keep_s:g} s will be aborted"
        )
    return AbortAnswer(matched=0, message=f"{what}; nothing to abort")
