"""An OTLP JSON body -> spans."""

from __future__ import annotations

import msgspec

from dashboards.errors import BodyRefused
from dashboards.otlp import KINDS, STATUSES, AnyValue, KeyValue, OtlpSpan, ResourceSpans, TracesData
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

_DECODER = msgspec.json.Decoder(TracesData)
_KIND_CODES = {f"SPAN_KIND_{name.upper()}": code for code, name in enumerate(KINDS)}
_STATUS_CODES = {f"STATUS_CODE_{name.upper()}": code for code, name in enumerate(STATUSES)}


def decode_json(body: bytes) -> Decoded:
    """Spans of one request. Raises `BodyRefused` (400), naming the member that is wrong."""
    try:
        document = _DECODER.decode(body)
        return sieve([span for part in document.resource_spans for span in _spans(part)])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BodyRefused(400, f"not OTLP JSON: {error}") from error


def _spans(part: ResourceSpans) -> list[Span]:
    origin = origin_of(_attributes(part.resource.attributes))
    return [_span(span, origin) for scope in part.scope_spans for span in scope.spans]


def _span(span: OtlpSpan, origin: Origin) -> Span:
    links = (
        SpanLink(trace_id=link.trace_id.lower(), span_id=link.span_id.lower())
        for link in span.links
    )
    return Span(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_span_id=span.parent_span_id.lower(),
        name=span.name,
        kind=kind_name(_code(span.kind, _KIND_CODES)),
        service=origin.service,
        instance=origin.instance,
        start_ns=int(span.start_time_unix_nano),
        end_ns=int(span.end_time_unix_nano),
        status=status_name(_code(span.status.code, _STATUS_CODES)),
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        resource=origin.resource,
        links=tuple(link for link in links if is_link(link)),
    )


def _code(value: int | str, names: dict[str, int]) -> int:
    return value if isinstance(value, int) else names.get(value, 0)


def _attributes(pairs: tuple[KeyValue, ...]) -> dict[str, AttributeValue]:
    return {pair.key: _value(pair.value) for pair in pairs if pair.value is not None}


def _value(value: AnyValue) -> AttributeValue:
    if value.array_value is not None:
        return [_scalar(item) for item in value.array_value.values]
    return _scalar(value)


def _scalar(value: AnyValue) -> Scalar:
    """A plain value; what nests deeper is kept as its JSON text."""
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return int(value.int_value)
    if value.double_value is not None:
        return finite(float(value.double_value))
    if value.bytes_value is not None:
        return value.bytes_value
    return msgspec.json.encode(value).decode()
