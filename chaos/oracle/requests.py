"""`Request`: what the client knows of one request, its `sent` joined with its `end`."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from loadtest.history import AbortKind, End, HistoryRecord, Outcome, Sent

ABORT_KINDS = {
    Outcome.ABORTED_DISCONNECT: AbortKind.DISCONNECT,
    Outcome.ABORTED_RID: AbortKind.RID,
    Outcome.ABORTED_DEADLINE: AbortKind.DEADLINE,
}
ERRORS = frozenset({Outcome.HTTP_ERROR, Outcome.CONN_ERROR, Outcome.TRUNCATED, Outcome.NOT_SENT})
HUNG = "hung"


class Request(Struct, frozen=True, kw_only=True):
    """``ends`` should hold exactly one; none: hung, two: answered twice."""

    sent: Sent
    ends: tuple[End, ...]

    @property
    def rid(self) -> str:
        return self.sent.rid

    @property
    def end(self) -> End | None:
        return self.ends[0] if self.ends else None

    @property
    def outcome(self) -> str:
        return self.end.outcome.value if self.end else HUNG

    @property
    def completed(self) -> bool:
        return self.end is not None and self.end.outcome is Outcome.COMPLETED

    @property
    def abort_kind(self) -> AbortKind | None:
        """How the client gave up; None if it did not."""
        return ABORT_KINDS.get(self.end.outcome) if self.end else None

    @property
    def server_aborted(self) -> bool:
        return self.end is not None and self.end.outcome is Outcome.ABORTED_SERVER

    @property
    def errored(self) -> bool:
        return self.end is not None and self.end.outcome in ERRORS

    @property
    def server_failed(self) -> bool:
        """It ended, and neither well nor by the client's wish."""
        return self.server_aborted or self.errored

    @property
    def asked_abort(self) -> AbortKind | None:
        """Kind of abort that the client fired, even if the answer came first."""
        return self.end.abort.kind if self.end and self.end.abort else self.abort_kind

    def is_open_at(self, at_ns: int) -> bool:
        return self.sent.sent_ns <= at_ns and (self.end is None or self.end.end_ns >= at_ns)

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it was open at any time in between."""
        return self.sent.sent_ns <= end_ns and (self.end is None or self.end.end_ns >= begin_ns)


class Paired(Struct, frozen=True, kw_only=True):
    """A whole history. ``repeated``: `sent` lines of a rid that was sent before."""

    requests: tuple[Request, ...]
    repeated: tuple[Sent, ...]
    stray_ends: tuple[End, ...]


NOTHING = Paired(requests=(), repeated=(), stray_ends=())


def pair(records: Iterable[HistoryRecord]) -> Paired:
    """Join by rid, in the order of sending."""
    sents: dict[str, Sent] = {}
    ends: dict[str, list[End]] = {}
    repeated: list[Sent] = []
    for record in records:
        if isinstance(record, End):
            ends.setdefault(record.rid, []).append(record)
        elif record.rid in sents:
            repeated.append(record)
        else:
            sents[record.rid] = record
    strays = [end for rid, found in ends.items() if rid not in sents for end in found]
    return Paired(
        requests=tuple(
            Request(sent=sent, ends=tuple(ends.get(rid, ()))) for rid, sent in sents.items()
        ),
        repeated=tuple(repeated),
        stray_ends=tuple(strays),
    )
