"""OTLP traces as JSON (opentelemetry-proto's proto3 JSON mapping): read by the store, written by `export`.

64-bit integers are text in this mapping; numbers are accepted too. Ids are hex, not base64.
"""

from __future__ import annotations

import msgspec

from dashboards.spans import AttributeValue, Scalar

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
"""Span kinds, by their number in OTLP."""
STATUSES = ("unset", "ok", "error")
"""Status codes, by their number in OTLP."""


class OtlpStruct(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Unknown members are skipped: newer senders may have more."""


class AnyValue(OtlpStruct, frozen=True):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    bytes_value: str | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None


class ArrayValue(OtlpStruct, frozen=True):
    values: tuple[AnyValue, ...] = ()


class KeyValue(OtlpStruct, frozen=True):
    key: str
    value: AnyValue | None = None


class KeyValueList(OtlpStruct, frozen=True):
    values: tuple[KeyValue, ...] = ()


class Link(OtlpStruct, frozen=True):
    trace_id: str = ""
    span_id: str = ""


class Status(OtlpStruct, frozen=True):
    code: int | str = 0
    message: str = ""


class OtlpSpan(OtlpStruct, frozen=True):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int | str = 0
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: tuple[KeyValue, ...] = ()
    links: tuple[Link, ...] = ()
    status: Status = Status()


class Scope(OtlpStruct, frozen=True):
    name: str = ""


class ScopeSpans(OtlpStruct, frozen=True):
    scope: Scope = Scope()
    spans: tuple[OtlpSpan, ...] = ()


class Resource(OtlpStruct, frozen=True):
    attributes: tuple[KeyValue, ...] = ()


class ResourceSpans(OtlpStruct, frozen=True):
    resource: Resource = Resource()
    scope_spans: tuple[ScopeSpans, ...] = ()


class TracesData(OtlpStruct, frozen=True):
    """One OTLP JSON document; also the body of ``POST /v1/traces``."""

    resource_spans: tuple[ResourceSpans, ...] = ()


def _scalar_to_any(value: Scalar) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=str(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def to_any(value: AttributeValue) -> AnyValue:
    """An attribute as OTLP's typed value."""
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=tuple(map(_scalar_to_any, value))))
    return _scalar_to_any(value)


def to_key_values(attributes: dict[str, AttributeValue]) -> tuple[KeyValue, ...]:
    return tuple(KeyValue(key=key, value=to_any(value)) for key, value in attributes.items())
