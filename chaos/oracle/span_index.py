"""Spans of a run, by request: `Half` is everything that one worker said of one (rid, room)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from chaos.records import ClockPair
from dashboards.spans import Span

PREFILL, DECODE, LOAD = "prefill", "decode", "load"
_ROLES = {"severance-prefill": PREFILL, "severance-decode": DECODE}
_LOAD_SERVICE = "severance-load"
_UNIFIED_SERVICE = "severance-unified"


class Half(Struct, frozen=True, kw_only=True):
    """``role_spans`` should hold exactly one. ``releases``: `kv.release` under aborts.
    ``stages``: every span but role, abort and its children."""

    rid: str
    room: str
    role: str
    worker: str
    incarnation: str
    role_spans: tuple[Span, ...]
    aborts: tuple[Span, ...]
    releases: tuple[Span, ...]
    stages: tuple[Span, ...]

    @property
    def role_span(self) -> Span | None:
        return self.role_spans[0] if self.role_spans else None

    @property
    def outcome(self) -> str | None:
        return self.role_span.text("pd.outcome") if self.role_span else None


class SpanIndex(Struct, frozen=True, kw_only=True):
    """``halves`` by rid; ``roots`` by trace id (the load driver's root spans); ``unified``: traces
    that a unified worker served."""

    spans: tuple[Span, ...]
    roots: dict[str, tuple[Span, ...]]
    halves: dict[str, tuple[Half, ...]]
    unified: frozenset[str]
    clock: ClockPair

    def mono(self, wall_ns: int) -> int:
        """CLOCK_MONOTONIC of the run's host, from a span's Unix time."""
        return wall_ns - self.clock.wall_ns + self.clock.mono_ns

    def of(self, rid: str, role: str) -> tuple[Half, ...]:
        return tuple(half for half in self.halves.get(rid, ()) if half.role == role)


NO_SPANS = SpanIndex(
    spans=(), roots={}, halves={}, unified=frozenset(), clock=ClockPair(wall_ns=0, mono_ns=0)
)


def number(span: Span, key: str) -> int | None:
    """An integer attribute; None if it is absent or no integer."""
    value = span.attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def incarnation_of(span: Span) -> str:
    return str(span.resource.get("service.instance.incarnation", ""))


def role_of(span: Span) -> str | None:
    """prefill or decode; None for spans of anybody else."""
    return _ROLES.get(span.service)


def index_spans(spans: Iterable[Span], clock: ClockPair) -> SpanIndex:
    everything = tuple(spans)
    roots: dict[str, tuple[Span, ...]] = {}
    groups: dict[tuple[str, str, str, str, str], list[Span]] = {}
    for span in everything:
        role = role_of(span)
        if role is not None:
            rid, room = span.text("pd.rid") or "", span.text("pd.room") or ""
            key = (rid, room, role, span.instance, incarnation_of(span))
            groups.setdefault(key, []).append(span)
        elif span.service == _LOAD_SERVICE and span.name == "request":
            roots[span.trace_id] = (*roots.get(span.trace_id, ()), span)
    halves: dict[str, tuple[Half, ...]] = {}
    for key, group in groups.items():
        halves[key[0]] = (*halves.get(key[0], ()), _half(key, group))
    unified = frozenset(
        one.trace_id
        for one in everything
        if one.service == _UNIFIED_SERVICE and one.name == "request"
    )
    return SpanIndex(spans=everything, roots=roots, halves=halves, unified=unified, clock=clock)


def _half(key: tuple[str, str, str, str, str], spans: list[Span]) -> Half:
    rid, room, role, worker, incarnation = key
    special = ("request", "abort", "abort.notify_peer", "kv.release")
    return Half(
        rid=rid,
        room=room,
        role=role,
        worker=worker,
        incarnation=incarnation,
        role_spans=tuple(span for span in spans if span.name == "request"),
        aborts=tuple(span for span in spans if span.name == "abort"),
        releases=tuple(span for span in spans if span.name == "kv.release"),
        stages=tuple(span for span in spans if span.name not in special),
    )
