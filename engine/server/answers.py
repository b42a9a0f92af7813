"""JSON that clients read: `/generate` answers and errors, in SGLang's shape where it has one."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from msgspec import UNSET, UnsetType

from engine.core.codes import http_status
from engine.core.io_struct import AbortInfo, FinishReason, TokenLogprob
from engine.errors import InputTooLong, RequestError
from engine.model.tokenizer import Tokenizer
from engine.server.req_state import ReqState

TokenEntry = tuple[float, int, None]


class FinishBody(msgspec.Struct, frozen=True, kw_only=True):
    """``meta_info.finish_reason``."""

    type: str
    matched: int | UnsetType = UNSET
    length: int | UnsetType = UNSET
    message: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    stage: str | UnsetType = UNSET
    origin: str | UnsetType = UNSET


class MetaInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Logprob entries are (logprob, token id, null), one an output token."""

    id: str
    finish_reason: FinishBody | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    e2e_latency: float
    output_token_logprobs: list[TokenEntry] | UnsetType = UNSET
    output_top_logprobs: list[list[TokenEntry]] | UnsetType = UNSET


class GenerateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Text and ids are cumulative, in events too."""

    text: str
    output_ids: list[int]
    meta_info: MetaInfo


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """``code`` is the HTTP status. Aborts carry reason, stage and origin; bad input its field."""

    message: str
    type: str
    code: int
    field: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    stage: str | UnsetType = UNSET
    origin: str | UnsetType = UNSET
    rid: str | UnsetType = UNSET
    limit: int | UnsetType = UNSET


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorDetail


def generate_answer(state: ReqState, tokenizer: Tokenizer, now_ns: int) -> GenerateAnswer:
    """What the client gets of ``state`` as it is now."""
    output_ids = [token.token_id for token in state.tokens]
    wants_top = state.return_logprob and state.top_logprobs_num > 0
    return GenerateAnswer(
        text=tokenizer.decode(output_ids),
        output_ids=output_ids,
        meta_info=MetaInfo(
            id=state.rid,
            finish_reason=finish_body(state.finish),
            prompt_tokens=state.num_prompt_tokens,
            completion_tokens=len(output_ids),
            cached_tokens=state.num_cached_tokens,
            e2e_latency=(now_ns - state.received_ns) / 1e9,
            output_token_logprobs=_logprobs(state.tokens) if state.return_logprob else UNSET,
            output_top_logprobs=_top_logprobs(state.tokens) if wants_top else UNSET,
        ),
    )


def finish_body(finish: FinishReason | None) -> FinishBody | None:
    """None while the request runs."""
    if finish is None:
        return None
    if finish.abort is not None:
        abort = finish.abort
        return FinishBody(
            type=finish.type,
            message=abort.message,
            reason=abort.reason,
            stage=abort.stage,
            origin=abort.origin,
        )
    return FinishBody(
        type=finish.type,
        matched=UNSET if finish.matched is None else finish.matched,
        length=UNSET if finish.length is None else finish.length,
    )


def abort_error(abort: AbortInfo, rid: str) -> ErrorBody | None:
    """The error for a server-side abort; None where the abort is the client's own.

    The message repeats the codes, because a router may pass on the message alone (SGLang's does).
    """
    status = http_status(abort.reason, abort.origin)
    if status == HTTPStatus.OK:
        return None
    return ErrorBody(
        error=ErrorDetail(
            message=f"{abort.message} (reason {abort.reason}, stage {abort.stage}, rid {rid})",
            type="abort",
            code=status,
            reason=abort.reason,
            stage=abort.stage,
            origin=abort.origin,
            rid=rid,
        )
    )


def request_error(error: RequestError) -> ErrorBody:
    """The 400 (or 413) for bad input."""
    too_long = isinstance(error, InputTooLong)
    return ErrorBody(
        error=ErrorDetail(
            message=str(error),
            type="invalid_request_error",
            code=error.status,
            field=error.field,
            reason="input_too_long" if too_long else UNSET,
            limit=error.limit if isinstance(error, InputTooLong) else UNSET,
        )
    )


def unavailable(message: str) -> ErrorBody:
    """The 503 of a worker that cannot serve now."""
    return plain_error(message, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable_error")


def plain_error(message: str, status: int, kind: str = "invalid_request_error") -> ErrorBody:
    return ErrorBody(error=ErrorDetail(message=message, type=kind, code=status))


def _entry(token_id: int, logprob: float) -> TokenEntry:
    return (logprob, token_id, None)


def _logprobs(tokens: list[TokenLogprob]) -> list[TokenEntry]:
    return [_entry(token.token_id, token.logprob) for token in tokens]


def _top_logprobs(tokens: list[TokenLogprob]) -> list[list[TokenEntry]]:
    return [[_entry(*pair) for pair in token.top] for token in tokens]
