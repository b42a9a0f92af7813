"""Spans of one ended request, built from its stamps: `emit_request_spans`.

request (SERVER)
├── tokenize
├── queue, bootstrap, prefill.chunk, kv.transfer, decode.wait_kv, decode   (the scheduler's stamps)
└── abort
    ├── abort.notify_peer
    └── kv.release
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.util.types import AttributeValue

from engine.core.codes import is_clients_own
from engine.core.io_struct import AbortInfo, Scalar, SpanStamp, TraceRecord
from engine.telemetry.context import TraceParent, trace_id_of_room
from engine.telemetry.ids import pinned_trace_id
from engine.telemetry.provider import Telemetry

ABORT = "abort"


class RequestTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What the HTTP side knows of an ended request. ``*_ns`` are CLOCK_MONOTONIC.

    ``record`` is None where the scheduler never reported (it died, or it never had the request).
    ``abort`` is None for a request that ran to its end.
    """

    rid: str
    room: int | None
    parent: TraceParent | None
    received_ns: int
    tokenized_ns: int
    ended_ns: int
    finish_type: str
    max_new_tokens: int
    num_prompt_tokens: int
    num_completion_tokens: int
    num_cached_tokens: int
    abort: AbortInfo | None = None
    record: TraceRecord | None = None

    @property
    def outcome(self) -> str:
        return "completed" if self.abort is None else "aborted"


def emit_request_spans(telemetry: Telemetry, request: RequestTrace) -> None:
    """Emit the role span and everything under it, with the times of the stamps."""
    if not telemetry.enabled:
        return
    stamps = _stamps(request)
    role_span = _start_role_span(telemetry, request, stamps)
    spans: list[Span] = []
    ends_ns = _ends_ns(stamps)
    for index, stamp in enumerate(stamps):
        parent = spans[stamp.parent] if 0 <= stamp.parent < index else role_span
        spans.append(_emit_stamp(telemetry, request, stamp, parent, ends_ns[index]))
    if request.abort is not None:
        _set_status(role_span, request.abort)
    role_span.end(telemetry.wall_ns(max([request.ended_ns, *ends_ns])))


def _ends_ns(stamps: list[SpanStamp]) -> list[int]:
    """When each span ends: never at its start (Jaeger warns of such a span), and after its children."""
    ends_ns = [max(stamp.start_ns + 1, stamp.end_ns) for stamp in stamps]
    for index, stamp in enumerate(stamps):
        if 0 <= stamp.parent < index:
            ends_ns[stamp.parent] = max(ends_ns[stamp.parent], ends_ns[index])
    return ends_ns


def _stamps(request: RequestTrace) -> list[SpanStamp]:
    """The scheduler's stamps (their parents stay valid), then ours."""
    stamps = list(request.record.spans) if request.record else []
    if request.abort is not None and all(stamp.name != ABORT for stamp in stamps):
        stamps.append(_abort_stamp(request.abort))
    stamps.append(
        SpanStamp(name="tokenize", start_ns=request.received_ns, end_ns=request.tokenized_ns)
    )
    return stamps


def _abort_stamp(abort: AbortInfo) -> SpanStamp:
    """An abort that the scheduler never took: it died, or the request ended first."""
    end_ns = max(abort.received_ns, abort.released_ns)
    return SpanStamp(name=ABORT, start_ns=abort.received_ns, end_ns=end_ns)


def _start_role_span(telemetry: Telemetry, request: RequestTrace, stamps: list[SpanStamp]) -> Span:
    first_ns = min([request.received_ns, *(stamp.start_ns for stamp in stamps)])
    parent, room = request.parent, request.room
    derived = parent is None and room is not None
    with pinned_trace_id(trace_id_of_room(room)) if derived and room is not None else nullcontext():
        return telemetry.tracer.start_span(
            "request",
            context=_remote(parent),
            kind=SpanKind.SERVER,
            attributes=_role_attributes(telemetry, request),
            start_time=telemetry.wall_ns(first_ns),
        )


def _remote(parent: TraceParent | None) -> Context:
    """A context that holds the caller's span, or nothing at all (never the ambient one)."""
    if parent is None:
        return Context()
    span_context = SpanContext(
        parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(parent.flags)
    )
    return trace.set_span_in_context(NonRecordingSpan(span_context), Context())


def _emit_stamp(
    telemetry: Telemetry, request: RequestTrace, stamp: SpanStamp, parent: Span, end_ns: int
) -> Span:
    attributes = _identity(telemetry, request)
    if stamp.name == ABORT and request.abort is not None:
        attributes |= _abort_attributes(request.abort, request.record)
    span = telemetry.tracer.start_span(
        stamp.name,
        context=trace.set_span_in_context(parent, Context()),
        attributes={**attributes, **stamp.attributes},
        start_time=telemetry.wall_ns(stamp.start_ns),
    )
    if stamp.name == ABORT and request.abort is not None:
        _set_status(span, request.abort)
    span.end(telemetry.wall_ns(end_ns))
    return span


def _identity(telemetry: Telemetry, request: RequestTrace) -> dict[str, Scalar]:
    """On every span. The room is text: OTLP integers are signed and JavaScript's end at 2**53."""
    attributes: dict[str, Scalar] = {
        "pd.rid": request.rid,
        "pd.role": telemetry.identity.role,
        "pd.seq": telemetry.next_seq(),
    }
    if request.room is not None:
        attributes["pd.room"] = str(request.room)
    return attributes


def _codes(abort: AbortInfo) -> dict[str, Scalar]:
    return {
        "pd.abort.reason": str(abort.reason),
        "pd.abort.origin": str(abort.origin),
        "pd.abort.via": str(abort.via),
        "pd.abort.stage": str(abort.stage),
    }


def _abort_attributes(abort: AbortInfo, record: TraceRecord | None) -> dict[str, Scalar]:
    wasted_prefill = record.num_wasted_prefill_tokens if record else 0
    wasted_decode = record.num_wasted_decode_tokens if record else 0
    return _codes(abort) | {
        "pd.abort.message": abort.message,
        "pd.abort.received_ns": abort.received_ns,
        "pd.abort.released_ns": abort.released_ns,
        "pd.wasted_tokens": wasted_prefill + wasted_decode,
        "pd.wasted_prefill_tokens": wasted_prefill,
        "pd.wasted_decode_tokens": wasted_decode,
    }


def _role_attributes(telemetry: Telemetry, request: RequestTrace) -> Mapping[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        **_identity(telemetry, request),
        "pd.outcome": request.outcome,
        "gen_ai.request.max_tokens": request.max_new_tokens,
        "gen_ai.response.finish_reasons": [request.finish_type],
        "gen_ai.usage.input_tokens": request.num_prompt_tokens,
        "gen_ai.usage.output_tokens": request.num_completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": request.num_cached_tokens,
    }
    return attributes if request.abort is None else {**attributes, **_codes(request.abort)}


def _set_status(span: Span, abort: AbortInfo) -> None:
    """A client's own cancel is no error; anything else is, named by its reason."""
    if not is_clients_own(abort.reason, abort.origin):
        span.set_attribute("error.type", str(abort.reason))
        span.set_status(Status(StatusCode.ERROR, abort.message))
