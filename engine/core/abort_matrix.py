"""Every place where an abort can find a request, and every cause: what is released, told and answered.

One table: `PLACES` (role and stage), `CAUSES`, and `cells`, their product as far as it can happen. A test
brings about every cell; ``docs/abort-matrix.md`` is printed from it:

    python -m engine.core.abort_matrix > docs/abort-matrix.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, DisaggregationMode, Stage
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortInfo
from engine.core.ledger import Resource

UNIFIED, PREFILL, DECODE = DisaggregationMode
KV, SLOT, METADATA, STAGING = (
    Resource.KV_PAGES,
    Resource.REQ_SLOTS,
    Resource.METADATA_SLOTS,
    Resource.STAGING_PAGES,
)
Places = dict[DisaggregationMode, tuple[Stage, ...]]


class Told(StrEnum):
    """When the other half hears of the abort."""

    NOBODY = "nobody"
    AT_ONCE = "at once"
    WHEN_MET = "when the halves meet"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """``holds``: in the ledger, and free after the safe point. ``may_hold``: also there at times;
    staging space is free when the link has settled its frame. ``optimistic``: prefill computes, or has
    computed, before its decode half is ready (`--optimistic-prefill-attempts`)."""

    role: DisaggregationMode
    stage: Stage
    holds: tuple[Resource, ...] = ()
    may_hold: tuple[Resource, ...] = ()
    has_room: bool = False
    told: Told = Told.NOBODY
    optimistic: bool = False

    @property
    def title(self) -> str:
        return f"{self.stage}, optimistic" if self.optimistic else str(self.stage)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """``reason`` and ``status`` None: as the other half says. ``told``: other than the place has it.
    ``at_optimistic``: stages of optimistic prefill where it can happen."""

    name: str
    what: str
    reason: AbortReason | None
    origin: AbortOrigin | None
    via: AbortVia
    status: int | None
    at: Places
    told: Told | None = None
    at_optimistic: tuple[Stage, ...] = ()

    def can_hit(self, place: Place) -> bool:
        stages = self.at_optimistic if place.optimistic else self.at.get(place.role, ())
        return place.stage in stages


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cause at one place."""

    place: Place
    cause: Cause

    @property
    def told(self) -> Told:
        if self.place.role is UNIFIED:
            return Told.NOBODY
        return self.place.told if self.cause.told is None else self.cause.told


_COMPUTES = (KV, SLOT)
_SENDS = (KV, SLOT, METADATA)


def _place(
    role: DisaggregationMode,
    stage: Stage,
    holds: tuple[Resource, ...] = (),
    told: Told = Told.NOBODY,
    may_hold: tuple[Resource, ...] = (),
    has_room: bool = False,
    optimistic: bool = False,
) -> Place:
    return Place(
        role=role,
        stage=stage,
        holds=holds,
        told=told,
        may_hold=may_hold,
        has_room=has_room,
        optimistic=optimistic,
    )


PLACES = (
    _place(UNIFIED, Stage.QUEUE),
    _place(UNIFIED, Stage.WAITING),
    _place(UNIFIED, Stage.MID_CHUNK, _COMPUTES),
    _place(UNIFIED, Stage.LAST_CHUNK, _COMPUTES),
    _place(UNIFIED, Stage.RUNNING, _COMPUTES),
    _place(PREFILL, Stage.QUEUE, (), Told.WHEN_MET),
    _place(PREFILL, Stage.BOOTSTRAP, (), Told.WHEN_MET, (), True),
    _place(PREFILL, Stage.WAITING, _COMPUTES, Told.AT_ONCE, (), True, True),
    _place(PREFILL, Stage.MID_CHUNK, _COMPUTES, Told.AT_ONCE, (), True, True),
    _place(PREFILL, Stage.LAST_CHUNK, _COMPUTES, Told.AT_ONCE, (), True, True),
    _place(PREFILL, Stage.WAITING, (METADATA,), Told.AT_ONCE, (KV, SLOT, STAGING), True),
    _place(PREFILL, Stage.MID_CHUNK, _SENDS, Told.AT_ONCE, (STAGING,), True),
    _place(PREFILL, Stage.LAST_CHUNK, _SENDS, Told.AT_ONCE, (STAGING,), True),
    _place(PREFILL, Stage.TRANSFER, (), Told.AT_ONCE, (KV, SLOT, METADATA, STAGING), True),
    _place(DECODE, Stage.QUEUE, (), Told.WHEN_MET),
    _place(DECODE, Stage.BOOTSTRAP, (), Told.WHEN_MET, (), True),
    _place(DECODE, Stage.PREALLOC, (), Told.AT_ONCE, (), True),
    _place(DECODE, Stage.DECODE_TRANSFER, _SENDS, Told.AT_ONCE, (), True),
    _place(DECODE, Stage.RUNNING, _COMPUTES),
)
"""TOKENIZE holds nothing outside the HTTP process; DECODE_WAITING takes no time (a committed transfer runs
in the same step), so no abort finds a request there. In WAITING a request holds pages if it was optimistic
before its bootstrap."""

_QUEUED: Places = {
    UNIFIED: (Stage.WAITING,),
    PREFILL: (Stage.BOOTSTRAP, Stage.WAITING),
    DECODE: (Stage.BOOTSTRAP, Stage.PREALLOC, Stage.DECODE_TRANSFER),
}
_COMPUTING: Places = {
    UNIFIED: (Stage.MID_CHUNK, Stage.LAST_CHUNK, Stage.RUNNING),
    PREFILL: (Stage.MID_CHUNK, Stage.LAST_CHUNK, Stage.TRANSFER),
    DECODE: (Stage.RUNNING,),
}
_OPTIMISTIC = (Stage.WAITING, Stage.MID_CHUNK, Stage.LAST_CHUNK)
_ANYWHERE: Places = {role: _QUEUED[role] + _COMPUTING[role] for role in DisaggregationMode}
_REFUSED: Places = dict.fromkeys(DisaggregationMode, (Stage.QUEUE,))
_JOINED: Places = {
    PREFILL: (
        Stage.BOOTSTRAP,
        Stage.WAITING,
        Stage.MID_CHUNK,
        Stage.LAST_CHUNK,
        Stage.TRANSFER,
    ),
    DECODE: (Stage.PREALLOC, Stage.DECODE_TRANSFER),
}


def _own(name: str, what: str, reason: AbortReason, origin: AbortOrigin, status: int) -> Cause:
    return Cause(
        name=name,
        what=what,
        reason=reason,
        origin=origin,
        via=AbortVia.LOCAL,
        status=status,
        at=_ANYWHERE,
        at_optimistic=_OPTIMISTIC,
    )


def _server(
    name: str,
    what: str,
    reason: AbortReason,
    status: int,
    at: Places,
    told: Told | None = None,
    at_optimistic: tuple[Stage, ...] = (),
) -> Cause:
    return Cause(
        name=name,
        what=what,
        reason=reason,
        origin=AbortOrigin.SERVER,
        via=AbortVia.LOCAL,
        status=status,
        at=at,
        told=told,
        at_optimistic=at_optimistic,
    )


_CLIENT = AbortOrigin.CLIENT
_R = AbortReason
CAUSES = (
    _own("client_abort", "`/abort_request`", _R.CLIENT_ABORT, _CLIENT, 200),
    _own("client_disconnect", "the client closes", _R.CLIENT_DISCONNECT, _CLIENT, 200),
    _own("deadline_s", "the request's own deadline", _R.DEADLINE, _CLIENT, 200),
    _own("shutdown", "the worker is stopped", _R.SHUTDOWN, AbortOrigin.OPERATOR, 503),
    _server("waiting_timeout", "`--request-waiting-timeout`", _R.DEADLINE, 504, _QUEUED),
    _server(
        "running_timeout",
        "`--request-running-timeout`",
        _R.DEADLINE,
        504,
        _COMPUTING,
        at_optimistic=_OPTIMISTIC,
    ),
    _server("queue_full", "`--max-queued-requests`", _R.QUEUE_FULL, 503, _REFUSED),
    _server("input_too_long", "needs more than the pool", _R.INPUT_TOO_LONG, 400, _REFUSED),
    _server("kv_exhausted", "never: memory is reserved at admission", _R.KV_EXHAUSTED, 503, {}),
    _server(
        "bootstrap_timeout",
        "no sign of the other half",
        _R.BOOTSTRAP_TIMEOUT,
        504,
        {
            PREFILL: (Stage.BOOTSTRAP,),
            DECODE: (Stage.BOOTSTRAP, Stage.PREALLOC, Stage.DECODE_TRANSFER),
        },
        at_optimistic=_OPTIMISTIC,
    ),
    _server(
        "transfer_timeout",
        "a transfer that has begun stands still",
        _R.TRANSFER_TIMEOUT,
        504,
        {PREFILL: (Stage.TRANSFER,), DECODE: (Stage.DECODE_TRANSFER,)},
    ),
    _server(
        "peer_dead",
        "the session is lost",
        _R.PEER_DEAD,
        503,
        _JOINED,
        Told.WHEN_MET,
        _OPTIMISTIC,
    ),
    _server(
        "damaged_pages",
        "a checksum or an order is wrong",
        _R.TRANSFER_FAILED,
        500,
        {DECODE: (Stage.DECODE_TRANSFER,)},
    ),
    _server(
        "other_size",
        "the halves count different pages",
        _R.TRANSFER_FAILED,
        500,
        {PREFILL: (Stage.BOOTSTRAP,)},
        Told.AT_ONCE,
        _OPTIMISTIC,
    ),
    _server(
        "room_in_use",
        "another request has the room",
        _R.TRANSFER_FAILED,
        500,
        {PREFILL: (Stage.BOOTSTRAP,), DECODE: (Stage.BOOTSTRAP,)},
        Told.NOBODY,
    ),
    Cause(
        name="told_by_peer",
        what="the other half was aborted",
        reason=None,
        origin=None,
        via=AbortVia.PEER,
        status=None,
        at=_JOINED,
        told=Told.NOBODY,
        at_optimistic=_OPTIMISTIC,
    ),
)

DROPPED_LATE = frozenset({_R.CLIENT_ABORT, _R.CLIENT_DISCONNECT, _R.DEADLINE})
"""What a half may show at any time: its client, or the router that drops it after the other's error."""

NEWS_NS = SECOND_NS
"""An abort is told in less than this while the link is up."""


def cells() -> Iterator[Cell]:
    """Everything that can happen."""
    for cause in CAUSES:
        for place in PLACES:
            if cause.can_hit(place):
                yield Cell(place=place, cause=cause)


def may_pair(one: AbortInfo, other: AbortInfo, *, link_broke: bool) -> bool:
    """May the two halves of a room end so? ``link_broke``: news could not get through in time."""
    vias = {one.via, other.via}
    if vias == {AbortVia.PEER}:
        return False  # somebody must have decided
    if one.reason is other.reason:
        return True
    if AbortVia.PEER in vias:
        return False  # the reason travels with the abort
    if link_broke or {one.reason, other.reason} & DROPPED_LATE:
        return True
    return abs(one.released_ns - other.released_ns) < NEWS_NS


# ---- the page -------------------------------------------------------------------------------------


def render() -> str:
    """The whole of ``docs/abort-matrix.md``."""
    parts = [_HEAD, *(_role(role) for role in DisaggregationMode), _pairs()]
    return "\n".join(parts)


_HEAD = """\
# What an abort releases, whom it tells, what it answers

Printed by `python -m engine.core.abort_matrix` from the table that `tests/engine/core/test_abort_matrix.py`
brings about cell by cell; do not edit. A number is the HTTP status of the answer (200: a normal answer with
`finish_reason.type` abort and what was generated before; the others: an error with reason, stage, origin
and rid, in a stream that has begun one `error` event). `as told`: that of the reason which the other half
sent. An empty cell cannot happen. Spans and metrics carry reason, origin, via and stage as named here.
"""


def _role(role: DisaggregationMode) -> str:
    places = [place for place in PLACES if place.role is role]
    what = [["stage", "released at the safe point", "other half is told"]]
    what += [[place.title, _held(place), place.told] for place in places]
    head = ["cause", "reason", "origin", *(place.title for place in places)]
    rows = [_cause_row(cause, places) for cause in CAUSES if any(map(cause.can_hit, places))]
    return f"## {role}\n\n{_table(what)}\n{_table([head, *rows])}"


def _held(place: Place) -> str:
    names = [*map(str, place.holds), *(["room"] if place.has_room else [])]
    names += [f"({resource})" for resource in place.may_hold]
    return ", ".join(names) or "nothing"


def _cause_row(cause: Cause, places: list[Place]) -> list[str]:
    row = [f"{cause.name}: {cause.what}", cause.reason or "as told", cause.origin or "as told"]
    return row + [_answer(Cell(place=place, cause=cause)) for place in places]


def _answer(cell: Cell) -> str:
    if not cell.cause.can_hit(cell.place):
        return ""
    status = "as told" if cell.cause.status is None else str(cell.cause.status)
    is_other = cell.told is not cell.place.told
    return f"{status}, tells {cell.told}" if is_other else status


def _pairs() -> str:
    late = ", ".join(sorted(DROPPED_LATE))
    rows = [
        ["`via` of the halves", "link", "their reasons"],
        ["peer, peer", "", "never: somebody must have decided"],
        ["peer, local", "", "the same: the reason travels with the abort"],
        ["local, local", "up", "any two within a second, before the news is there"],
        [
            "local, local",
            "up",
            f"later: the same, or one of {late} (the router may drop a half late)",
        ],
        ["local, local", "broken", "any two: each half decides for itself"],
    ]
    return f"## Which codes the two halves may show\n\n{_table(rows)}"


def _table(rows: list[list[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body, ""])


if __name__ == "__main__":
    sys.stdout.write(render())
