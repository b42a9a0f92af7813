"""What a decoded body is, and the laws that every stored span keeps, whatever its encoding was."""

from __future__ import annotations

import math
from typing import NamedTuple

from dashboards.otlp import KINDS, STATUSES
from dashboards.spans import AttributeValue, Scalar, Span, SpanLink

MAX_INT64 = 2**63 - 1
UNKNOWN_SERVICE = "unknown_service"
_HEX = frozenset("0123456789abcdef")


class Decoded(NamedTuple):
    """``rejected`` spans were left out, the last one for the reason ``why``."""

    spans: list[Span]
    rejected: int
    why: str


class Origin(NamedTuple):
    """A resource, resolved once for all of its spans."""

    service: str
    instance: str
    resource: dict[str, AttributeValue]


def origin_of(resource: dict[str, AttributeValue]) -> Origin:
    return Origin(
        service=str(resource.get("service.name", UNKNOWN_SERVICE)),
        instance=str(resource.get("service.instance.id", "")),
        resource=resource,
    )


def finite(value: float) -> Scalar:
    """JSON has no NaN and no infinity: those become text."""
    return value if math.isfinite(value) else str(value)


def kind_name(code: int) -> str:
    return KINDS[code] if 0 <= code < len(KINDS) else KINDS[0]


def status_name(code: int) -> str:
    return STATUSES[code] if 0 <= code < len(STATUSES) else STATUSES[0]


def _is_id(text: str, length: int) -> bool:
    return len(text) == length and _HEX.issuperset(text) and text.strip("0") != ""


def is_link(link: SpanLink) -> bool:
    return _is_id(link.trace_id, 32) and _is_id(link.span_id, 16)


def flaw(span: Span) -> str | None:
    """Why a span cannot be stored; None if it can."""
    if not _is_id(span.trace_id, 32):
        return f"trace id {span.trace_id[:40]!r} is not 16 bytes, or all zero"
    if not _is_id(span.span_id, 16):
        return f"span id {span.span_id[:40]!r} is not 8 bytes, or all zero"
    if span.parent_span_id and not _is_id(span.parent_span_id, 16):
        return f"parent span id {span.parent_span_id[:40]!r} is not 8 bytes"
    if not 0 <= span.start_ns <= MAX_INT64 or not 0 <= span.end_ns <= MAX_INT64:
        return "a time does not fit in 63 bits of Unix nanoseconds"
    return None


def sieve(spans: list[Span]) -> Decoded:
    """Keep the sound spans."""
    flaws = [flaw(span) for span in spans]
    if not any(flaws):
        return Decoded(spans, 0, "")
    kept = [span for span, why in zip(spans, flaws, strict=True) if why is None]
    reasons = [why for why in flaws if why is not None]
    return Decoded(kept, len(reasons), reasons[-1])
