"""May a running forward stop? Only when nobody in its batch is alive any more.

The forward asks between its layers; the same functions decide under virtual time. They read messages
that have arrived and that the scheduler has not taken in yet, and change nothing: state is released at
the safe point alone, and a member that turns out to be alive there runs again.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.io_struct import AbortReq
from engine.core.peer import AbortRoom, Inbound, PeerLost, PeerSaid
from engine.core.schedule_batch import BatchMember


def is_abort(message: Inbound) -> bool:
    """Can this message end a request?"""
    match message:
        case AbortReq() | PeerLost() | PeerSaid(message=AbortRoom()):
            return True
    return False


def names(abort: AbortReq, rid: str, room: int | None) -> bool:
    """Does a client's abort mean this request? Rids are compared whole unless ``prefix``."""
    if abort.abort_all:
        return True
    if abort.prefix:
        return rid.startswith(abort.rid)
    return rid == abort.rid and abort.bootstrap_room in (None, room)


def survivors(
    members: Iterable[BatchMember], news: Iterable[Inbound], now_ns: int
) -> tuple[BatchMember, ...]:
    """The members that neither ``news`` nor a deadline has ended. None left: the forward may stop."""
    alive = [member for member in members if not 0 < member.deadline_ns <= now_ns]
    for message in news:
        alive = [member for member in alive if not _ends(message, member)]
    return tuple(alive)


def _ends(message: Inbound, member: BatchMember) -> bool:
    match message:
        case AbortReq():
            return names(message, member.rid, member.room)
        case PeerLost(peer=peer):
            return peer == member.peer
        case PeerSaid(peer=peer, message=AbortRoom(room=room, attempt=attempt)):
            same = room == member.room and attempt in (None, member.attempt)
            return same and member.peer == peer
    return False
