"""Requests of a run: client history, server spans and the oracle's abort rows, joined by rid."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum

import msgspec

from chaos.verdict import AbortRow
from dashboards.report.clock import RunClock
from dashboards.run_dir import Run
from dashboards.spans import Span
from loadtest.history import End, Outcome, Sent

HUNG = "hung"
ABORT_SPAN = "abort"
ROOT_SPAN = "request"


class Group(StrEnum):
    """What a request counts as."""

    COMPLETED = "completed"
    DISCONNECT = "disconnect"
    RID = "rid"
    DEADLINE = "deadline"
    SERVER = "server"
    FAILED = "failed"


CLIENT_GROUPS = (Group.DISCONNECT, Group.RID, Group.DEADLINE)
LABELS = {
    Group.COMPLETED: "completed",
    Group.DISCONNECT: "abort by disconnect",
    Group.RID: "abort by rid",
    Group.DEADLINE: "abort by deadline",
    Group.SERVER: "aborted by server",
    Group.FAILED: "failed or hung",
}
_GROUPS = {
    Outcome.COMPLETED: Group.COMPLETED,
    Outcome.ABORTED_DISCONNECT: Group.DISCONNECT,
    Outcome.ABORTED_RID: Group.RID,
    Outcome.ABORTED_DEADLINE: Group.DEADLINE,
    Outcome.ABORTED_SERVER: Group.SERVER,
}


class AbortHalf(msgspec.Struct, frozen=True, kw_only=True):
    """One role's `abort` span. ``released_ms``: received -> released on that worker."""

    role: str
    reason: str
    origin: str
    via: str
    stage: str
    released_ms: float | None
    wasted_tokens: int | None


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """``sent`` is None where only spans are left of the request. Times are seconds on the axis."""

    rid: str
    group: Group
    outcome: str
    sent: Sent | None
    end: End | None
    row: AbortRow | None
    trace_id: str
    spans: tuple[Span, ...]
    halves: tuple[AbortHalf, ...]
    due_s: float | None
    sent_s: float | None
    first_s: float | None
    end_s: float | None
    act_s: float | None

    @property
    def at_s(self) -> float | None:
        """The moment to draw: the client's act, else the end, else the send."""
        moments = (self.act_s, self.end_s, self.sent_s)
        return next((moment for moment in moments if moment is not None), None)

    @property
    def reason(self) -> str | None:
        """Root cause: as the oracle, the client's error body, or the deciding half tells it."""
        local = [half for half in self.halves if half.via == "local"] or list(self.halves)
        named = (
            self.row.reason if self.row else None,
            self.end.error_reason if self.end else None,
            local[0].reason if local else None,
        )
        return next((reason for reason in named if reason), None)

    @property
    def origin(self) -> str | None:
        if self.halves:
            return self.halves[0].origin
        if self.group in CLIENT_GROUPS:
            return "client"
        return self.end.error_origin if self.end else None


def requests_of(run: Run, clock: RunClock) -> list[RequestView]:
    """In the order in which they were sent; without a history, as far as spans know them."""
    spans = _spans_by_rid(run)
    sents = {record.rid: record for record in run.history if isinstance(record, Sent)}
    ends = {record.rid: record for record in run.history if isinstance(record, End)}
    rows = {row.rid: row for row in run.aborts}
    rids = list(dict.fromkeys((*sents, *ends, *rows))) or list(spans)
    return [
        _view(rid, sents.get(rid), ends.get(rid), rows.get(rid), spans.get(rid, []), clock)
        for rid in rids
    ]


def _spans_by_rid(run: Run) -> dict[str, list[Span]]:
    """A span belongs to the request whose trace it is in, whichever span named the rid."""
    rid_of: dict[str, str] = {}
    for span in run.spans:
        rid = span.text("pd.rid")
        if rid:
            rid_of.setdefault(span.trace_id, rid)
    rid_of |= {record.trace_id: record.rid for record in run.history if isinstance(record, Sent)}
    grouped: dict[str, list[Span]] = defaultdict(list)
    for span in run.spans:
        rid = rid_of.get(span.trace_id)
        if rid:
            grouped[rid].append(span)
    return grouped


def _view(
    rid: str,
    sent: Sent | None,
    end: End | None,
    row: AbortRow | None,
    spans: list[Span],
    clock: RunClock,
) -> RequestView:
    offset = clock.offset_of(sent) if sent else clock.offset_ns

    def at(moment_ns: int | None) -> float | None:
        return None if moment_ns is None else clock.wall(moment_ns + offset)

    known = sent is not None or end is not None
    return RequestView(
        rid=rid,
        group=_group(end) if known else _group_of_spans(spans, row),
        outcome=(end.outcome.value if end else HUNG) if known else _outcome_of_spans(spans),
        sent=sent,
        end=end,
        row=row,
        trace_id=sent.trace_id if sent else row.trace_id if row else _trace_of(spans),
        spans=tuple(spans),
        halves=tuple(_half(span) for span in spans if span.name == ABORT_SPAN),
        due_s=at(sent.scheduled_ns) if sent else None,
        sent_s=at(sent.sent_ns) if sent else clock.wall(spans[0].start_ns) if spans else None,
        first_s=at(end.first_ns) if end else None,
        end_s=at(end.end_ns) if end else _end_of_spans(spans, clock) if not known else None,
        act_s=at(end.abort.fired_ns) if end and end.abort else None,
    )


def _group(end: End | None) -> Group:
    return Group.FAILED if end is None else _GROUPS.get(end.outcome, Group.FAILED)


def _outcome_of_spans(spans: list[Span]) -> str:
    """A root says it best; any span with an outcome says it too."""
    roots = sorted(spans, key=lambda span: bool(span.parent_span_id))
    return next((text for span in roots if (text := span.text("pd.outcome"))), "unknown")


def _group_of_spans(spans: list[Span], row: AbortRow | None) -> Group:
    if row and row.kind in tuple(Group):
        return Group(row.kind)
    match _outcome_of_spans(spans):
        case "completed":
            return Group.COMPLETED
        case "aborted":
            return Group.SERVER if any(_is_server(span) for span in spans) else Group.RID
        case _:
            return Group.FAILED


def _is_server(span: Span) -> bool:
    return span.text("pd.abort.origin") == "server"


def _end_of_spans(spans: list[Span], clock: RunClock) -> float | None:
    return clock.wall(max(span.end_ns for span in spans)) if spans else None


def _trace_of(spans: list[Span]) -> str:
    return spans[0].trace_id if spans else ""


def _half(span: Span) -> AbortHalf:
    received, released = _whole(span, "pd.abort.received_ns"), _whole(span, "pd.abort.released_ns")
    return AbortHalf(
        role=span.text("pd.role") or span.service.removeprefix("severance-"),
        reason=span.text("pd.abort.reason") or "",
        origin=span.text("pd.abort.origin") or "",
        via=span.text("pd.abort.via") or "",
        stage=span.text("pd.abort.stage") or "",
        released_ms=None if received is None or released is None else (released - received) / 1e6,
        wasted_tokens=_whole(span, "pd.wasted_tokens"),
    )


def _whole(span: Span, key: str) -> int | None:
    value = span.attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
