"""Answers to `ControlReq`: the ledger, the loads, one request, and the operator's switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from engine.core.io_struct import ControlReq, ControlResp

if TYPE_CHECKING:
    from engine.core.req import Req
    from engine.core.scheduler import Scheduler

_ENCODE = msgspec.json.encode


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``GET /requests/{rid}``; one entry a (rid, room)."""

    rid: str
    bootstrap_room: int | None
    stage: str
    chunk: int
    num_input_tokens: int
    num_cached_tokens: int
    num_pages: int
    num_output_tokens: int
    aborting: bool


class LoadsView(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``GET /v1/loads``: queue lengths and free pages."""

    role: str
    num_running_reqs: int
    num_reqs: int
    queues: dict[str, int]
    num_free_pages: int
    paused: bool


def _request_view(req: Req) -> RequestView:
    return RequestView(
        rid=req.rid,
        bootstrap_room=req.room,
        stage=str(req.stage),
        chunk=req.chunk_index,
        num_input_tokens=req.num_input_tokens,
        num_cached_tokens=req.num_cached_tokens,
        num_pages=len(req.page_ids),
        num_output_tokens=len(req.output),
        aborting=req.to_abort is not None,
    )


def loads_view(scheduler: Scheduler) -> LoadsView:
    return LoadsView(
        role=str(scheduler.role),
        num_running_reqs=len(scheduler.running),
        num_reqs=len(scheduler.reqs),
        queues=scheduler.queues(),
        num_free_pages=scheduler.pools.kv_pages.num_free,
        paused=scheduler.paused,
    )


def answer_control(recv: ControlReq, scheduler: Scheduler) -> ControlResp:
    """JSON for the caller; an empty body says that there is no such thing."""
    match recv.op:
        case "ledger":
            body = _ENCODE(scheduler.ledger_view())
        case "request":
            found = [_request_view(req) for req in scheduler.reqs.values() if req.rid == recv.rid]
            body = _ENCODE(found) if found else b""
        case "loads" | "pause" | "continue":
            body = _ENCODE(loads_view(scheduler))
        case "flush":
            body = _ENCODE({"flushed": scheduler.is_idle()})
        case "health":
            body = _ENCODE({"step": scheduler.step})
        case _:
            body = b""
    return ControlResp(id=recv.id, body=body)
