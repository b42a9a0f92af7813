"""Spans -> one OTLP JSON document, as Jaeger's ``/api/transform`` and every OTLP reader take it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dashboards.otlp import (
    KINDS,
    STATUSES,
    Link,
    OtlpSpan,
    Resource,
    ResourceSpans,
    Scope,
    ScopeSpans,
    Status,
    TracesData,
    to_key_values,
)
from dashboards.spans import AttributeValue, Span

SCOPE = "severance"


def to_otlp(spans: Iterable[Span]) -> TracesData:
    """Spans grouped by their resource, in the order of their first span."""
    groups: dict[bytes, list[Span]] = {}
    for span in spans:
        key = msgspec.json.encode(resource_of(span), order="sorted")
        groups.setdefault(key, []).append(span)
    return TracesData(tuple(_resource_spans(group) for group in groups.values()))


def resource_of(span: Span) -> dict[str, AttributeValue]:
    """The resource, with the names of service and instance even where the sender gave none."""
    named: dict[str, AttributeValue] = {"service.name": span.service}
    if span.instance:
        named["service.instance.id"] = span.instance
    return {**named, **span.resource}


def _resource_spans(spans: list[Span]) -> ResourceSpans:
    scope = ScopeSpans(scope=Scope(name=SCOPE), spans=tuple(map(_span, spans)))
    return ResourceSpans(
        resource=Resource(to_key_values(resource_of(spans[0]))), scope_spans=(scope,)
    )


def _span(span: Span) -> OtlpSpan:
    return OtlpSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        kind=KINDS.index(span.kind) if span.kind in KINDS else 0,
        start_time_unix_nano=str(span.start_ns),
        end_time_unix_nano=str(span.end_ns),
        attributes=to_key_values(span.attributes),
        links=tuple(Link(trace_id=one.trace_id, span_id=one.span_id) for one in span.links),
        status=Status(
            code=STATUSES.index(span.status) if span.status in STATUSES else 0,
            message=span.status_message,
        ),
    )
