"""What the two halves of a pair tell each other, and what the core and the links exchange.

Names of peers: decode calls a prefill by its bootstrap address ``host:port``; prefill calls a decode by
its worker name. `Attempt` fences: decode mints it, every frame echoes it, older ones are dropped.
"""

from __future__ import annotations

import msgspec

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import FromScheduler, TokenLogprob, ToScheduler


class Attempt(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One try of one decode process at one room."""

    incarnation: str
    counter: int


# ---- messages between the halves (control link unless said) -----------------------------------


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="join"):
    """decode -> prefill, when the request arrives at decode, before it has memory."""

    room: int
    attempt: Attempt
    rid: str


class Metadata(msgspec.Struct, frozen=True, kw_only=True, tag="metadata"):
    """decode -> prefill: memory for ``num_pages`` pages is reserved, send."""

    room: int
    attempt: Attempt
    num_pages: int


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag="committed"):
    """decode -> prefill: every page arrived intact and is in place."""

    room: int
    attempt: Attempt


class AbortRoom(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """Either way. ``attempt`` None: the sender never learned of one (abort before JOIN)."""

    room: int
    attempt: Attempt | None
    reason: AbortReason
    origin: AbortOrigin
    message: str


class RoomQuery(msgspec.Struct, frozen=True, kw_only=True, tag="query"):
    """Either way, about a room without progress for a second."""

    room: int
    attempt: Attempt


class RoomStatus(msgspec.Struct, frozen=True, kw_only=True, tag="status"):
    """Answer to `RoomQuery`. A room that its peer knows to be alive has progressed."""

    room: int
    attempt: Attempt
    alive: bool


class KvPages(msgspec.Struct, frozen=True, kw_only=True, tag="kv"):
    """prefill -> decode on the kv link, with the raw pages in the next frame.

    ``first_page`` and ``num_pages`` count in the request's own pages. ``checksum``: xxh3_64 of the raw
    frame. ``first_token`` comes with the last frame (SGLang's metadata row).
    """

    room: int
    attempt: Attempt
    first_page: int
    num_pages: int
    is_last: bool
    checksum: int
    first_token: TokenLogprob | None = None


PeerMessage = Join | Metadata | Committed | AbortRoom | RoomQuery | RoomStatus

# ---- links -> core ------------------------------------------------------------------------------


class PeerUp(msgspec.Struct, frozen=True, kw_only=True):
    peer: str
    incarnation: str


class PeerLost(msgspec.Struct, frozen=True, kw_only=True):
    """The session is gone for good: its rooms fail."""

    peer: str
    reason: AbortReason
    message: str


class PeerSaid(msgspec.Struct, frozen=True, kw_only=True):
    peer: str
    message: PeerMessage


class KvArrived(msgspec.Struct, frozen=True, kw_only=True):
    """``intact``: the checksum fits. ``session`` and ``seq`` name the frame for `KvTaken`."""

    peer: str
    header: KvPages
    data: bytes | memoryview
    intact: bool
    session: int = 0
    seq: int = 0


class KvSettled(msgspec.Struct, frozen=True, kw_only=True):
    """A staged frame was acknowledged or given up: its staging space is free again."""

    peer: str
    room: int
    owner: str
    staging_ids: tuple[int, ...]
    acknowledged: bool


Inbound = ToScheduler | PeerUp | PeerLost | PeerSaid | KvArrived | KvSettled

# ---- core -> loop -------------------------------------------------------------------------------


class Emit(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the tokenizer side."""

    message: FromScheduler


class Connect(msgspec.Struct, frozen=True, kw_only=True):
    """Have a session with the prefill whose bootstrap address this is."""

    peer: str


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    peer: str
    message: PeerMessage


class SendKv(msgspec.Struct, frozen=True, kw_only=True):
    """Gather ``page_ids`` now (they may be reused right after) and send them; checksum is filled in.

    ``owner`` holds the staging space until `KvSettled`.
    """

    peer: str
    owner: str
    header: KvPages
    page_ids: tuple[int, ...]
    staging_ids: tuple[int, ...]


class Scatter(msgspec.Struct, frozen=True, kw_only=True):
    """Write arrived pages into the pool, before the next forward."""

    page_ids: tuple[int, ...]
    data: bytes | memoryview


class KvTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of the session up to this frame is in place, or dropped: the peer may send as much more."""

    peer: str
    session: int
    seq: int


Effect = Emit | Connect | Tell | SendKv | Scatter | KvTaken
