"""Spans -> the JSON that the Jaeger UI takes under "JSON File" and that its query API answers.

Times are Unix microseconds. A parent is a CHILD_OF reference, a link FOLLOWS_FROM; the parent comes
first, because the UI's critical path trips over a span whose first reference is a foreign one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from dashboards.otlp_export import resource_of
from dashboards.spans import AttributeValue, Span


class RefType(StrEnum):
    CHILD_OF = "CHILD_OF"
    FOLLOWS_FROM = "FOLLOWS_FROM"


class JaegerTag(msgspec.Struct, frozen=True):
    """``type``: string | bool | int64 | float64."""

    key: str
    type: str
    value: str | int | float | bool


class JaegerReference(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"ref_type": "refType", "trace_id": "traceID", "span_id": "spanID"},
):
    ref_type: RefType
    trace_id: str
    span_id: str


class JaegerSpan(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "trace_id": "traceID",
        "span_id": "spanID",
        "operation_name": "operationName",
        "start_time": "startTime",
        "process_id": "processID",
    },
):
    trace_id: str
    span_id: str
    operation_name: str
    references: tuple[JaegerReference, ...]
    start_time: int
    duration: int
    tags: tuple[JaegerTag, ...]
    process_id: str
    logs: tuple[JaegerTag, ...] = ()
    warnings: None = None


class JaegerProcess(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service_name: str
    tags: tuple[JaegerTag, ...]


class JaegerTrace(msgspec.Struct, frozen=True, kw_only=True, rename={"trace_id": "traceID"}):
    trace_id: str
    spans: tuple[JaegerSpan, ...]
    processes: dict[str, JaegerProcess]
    warnings: None = None


class JaegerDocument(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[JaegerTrace, ...]
    total: int = 0
    limit: int = 0
    offset: int = 0
    errors: None = None


def to_jaeger(spans: Iterable[Span]) -> JaegerDocument:
    """One trace an element of ``data``, in the order of their first span."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return JaegerDocument(data=tuple(_trace(key, members) for key, members in traces.items()))


def _trace(trace_id: str, spans: list[Span]) -> JaegerTrace:
    processes: dict[JaegerProcess, str] = {}
    rows = []
    for span in spans:
        process_id = processes.setdefault(_process(span), f"p{len(processes) + 1}")
        rows.append(_span(span, process_id))
    by_id = {name: process for process, name in processes.items()}
    return JaegerTrace(trace_id=trace_id, spans=tuple(rows), processes=by_id)


def _process(span: Span) -> JaegerProcess:
    tags = {key: value for key, value in resource_of(span).items() if key != "service.name"}
    return JaegerProcess(service_name=span.service, tags=_tags(tags))


def _span(span: Span, process_id: str) -> JaegerSpan:
    start = span.start_ns // 1000
    return JaegerSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        operation_name=span.name,
        references=tuple(_references(span)),
        start_time=start,
        duration=max(0, span.end_ns // 1000 - start),
        tags=_tags(span.attributes) + tuple(_status_tags(span)),
        process_id=process_id,
    )


def _references(span: Span) -> Iterable[JaegerReference]:
    if span.parent_span_id:
        yield JaegerReference(
            ref_type=RefType.CHILD_OF, trace_id=span.trace_id, span_id=span.parent_span_id
        )
    for link in span.links:
        yield JaegerReference(
            ref_type=RefType.FOLLOWS_FROM, trace_id=link.trace_id, span_id=link.span_id
        )


def _status_tags(span: Span) -> Iterable[JaegerTag]:
    """What OpenTelemetry keeps beside the attributes, under the keys that Jaeger reads."""
    yield JaegerTag("span.kind", "string", span.kind)
    if span.status == "unset":
        return
    yield JaegerTag("otel.status_code", "string", span.status.upper())
    if span.status == "error":
        yield JaegerTag("error", "bool", True)
    if span.status_message:
        yield JaegerTag("otel.status_description", "string", span.status_message)


def _tags(attributes: dict[str, AttributeValue]) -> tuple[JaegerTag, ...]:
    return tuple(_tag(key, value) for key, value in attributes.items())


def _tag(key: str, value: AttributeValue) -> JaegerTag:
    if isinstance(value, bool):
        return JaegerTag(key, "bool", value)
    if isinstance(value, int):
        return JaegerTag(key, "int64", value)
    if isinstance(value, float):
        return JaegerTag(key, "float64", value)
    if isinstance(value, str):
        return JaegerTag(key, "string", value)
    return JaegerTag(key, "string", msgspec.json.encode(value).decode())
