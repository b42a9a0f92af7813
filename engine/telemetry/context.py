"""Where a request's trace comes from: its ``traceparent`` header, else its bootstrap room."""

from __future__ import annotations

import hashlib
import re

import msgspec

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceParent(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's span (W3C Trace Context)."""

    trace_id: int
    span_id: int
    flags: int


def parse_traceparent(header: str | None) -> TraceParent | None:
    """Read a ``traceparent`` header; None if it is absent or breaks the W3C rules."""
    match = _TRACEPARENT.fullmatch(header.strip()) if header else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest):
        return None
    parent = TraceParent(trace_id=int(trace_id, 16), span_id=int(span_id, 16), flags=int(flags, 16))
    return parent if parent.trace_id and parent.span_id else None


def trace_id_of_room(room: int) -> int:
    """The trace id both halves of a request agree on when no ``traceparent`` arrived."""
    digest = hashlib.sha256(f"severance-room:{room}".encode()).digest()
    return int.from_bytes(digest[:16], "big") or 1
