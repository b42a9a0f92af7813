"""An OTLP protobuf body -> spans, and the protobuf answer. Slow to import (descriptors), so imported late."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from dashboards.errors import BodyRefused
from dashboards.spans import AttributeValue, Scalar, Span, SpanLink
from dashboards.spanstore.decoded import (
    Decoded,
    Origin,
    finite,
    is_link,
    kind_name,
    origin_of,
    sieve,
    status_name,
)


def decode_protobuf(body: bytes) -> Decoded:
    """Spans of one request. Raises `BodyRefused` (400)."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise BodyRefused(400, f"not an OTLP protobuf message: {error}") from error
    return sieve([span for part in request.resource_spans for span in _spans(part)])


def encode_answer(rejected: int, why: str) -> bytes:
    """The answer of a protobuf export: empty, or a partial success."""
    answer = ExportTraceServiceResponse()
    if rejected:
        answer.partial_success.rejected_spans = rejected
        answer.partial_success.error_message = why
    body: bytes = answer.SerializeToString()
    return body


def _spans(part: ResourceSpans) -> list[Span]:
    origin = origin_of(_attributes(part.resource.attributes))
    return [_span(span, origin) for scope in part.scope_spans for span in scope.spans]


def _span(span: OtlpSpan, origin: Origin) -> Span:
    links = (
        SpanLink(trace_id=link.trace_id.hex(), span_id=link.span_id.hex()) for link in span.links
    )
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        name=span.name,
        kind=kind_name(span.kind),
        service=origin.service,
        instance=origin.instance,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status=status_name(span.status.code),
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        resource=origin.resource,
        links=tuple(link for link in links if is_link(link)),
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> AttributeValue:
    if value.WhichOneof("value") == "array_value":
        return [_scalar(item) for item in value.array_value.values]
    return _scalar(value)


def _scalar(value: AnyValue) -> Scalar:
    """A plain value; what nests deeper is kept as its text."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return finite(value.double_value)
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode()
        case None:
            return ""
        case _:
            return str(value).strip()
