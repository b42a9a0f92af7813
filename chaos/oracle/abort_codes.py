"""Tables of the abort codes (DESIGN 2.4): who may give which reason, and how two halves may pair.

Names repeat the engine's wire vocabulary; the oracle reads it from files and imports no engine.
"""

from __future__ import annotations

from msgspec import Struct

from chaos.oracle.span_index import Half, number
from dashboards.spans import Span
from loadtest.history import AbortKind

CLIENT_ABORT, CLIENT_DISCONNECT, DEADLINE = "client_abort", "client_disconnect", "deadline"
CLIENT_REASONS = frozenset({CLIENT_ABORT, CLIENT_DISCONNECT, DEADLINE})
LINK_REASONS = frozenset({"peer_dead", "bootstrap_timeout", "transfer_failed", "transfer_timeout"})
SHUTDOWN = "shutdown"
REFUSALS = frozenset({"queue_full", "input_too_long", "kv_exhausted"})

ASKED: dict[AbortKind, frozenset[str]] = {
    AbortKind.DISCONNECT: frozenset({CLIENT_DISCONNECT}),
    AbortKind.RID: frozenset({CLIENT_ABORT, CLIENT_DISCONNECT}),
    AbortKind.DEADLINE: frozenset({DEADLINE, CLIENT_DISCONNECT}),
}
"""Reasons that a client's own way of giving up accounts for."""

ORIGINS: dict[str, frozenset[str]] = {
    CLIENT_ABORT: frozenset({"client", "operator"}),
    CLIENT_DISCONNECT: frozenset({"client"}),
    DEADLINE: frozenset({"client", "server"}),
    SHUTDOWN: frozenset({"operator", "server"}),
    **dict.fromkeys(LINK_REASONS | REFUSALS, frozenset({"server"})),
}
PREFILL_STAGES = frozenset(
    {"tokenize", "queue", "bootstrap", "waiting", "mid_chunk", "last_chunk", "transfer"}
)
DECODE_STAGES = frozenset(
    {
        "tokenize",
        "queue",
        "bootstrap",
        "prealloc",
        "decode_transfer",
        "decode_waiting",
        "running",
    }
)
DECODING = frozenset({"decode_waiting", "running"})
STAGES = {"prefill": PREFILL_STAGES, "decode": DECODE_STAGES}
LOCAL, PEER = "local", "peer"
NEWS_NS = 1_000_000_000
"""An abort is told in less than this while the link is up."""


class AbortCodes(Struct, frozen=True, kw_only=True):
    """The codes of one `abort` span. Absent ones are empty. Stamps are CLOCK_MONOTONIC."""

    reason: str
    origin: str
    via: str
    stage: str
    received_ns: int | None
    released_ns: int | None
    wasted_prefill: int
    wasted_decode: int


def codes_of(half: Half, abort: Span) -> AbortCodes:
    """A span that does not say which tokens were wasted wasted those of its role."""
    total = number(abort, "pd.wasted_tokens") or 0
    is_prefill = half.role == "prefill"
    prefill = number(abort, "pd.wasted_prefill_tokens")
    decode = number(abort, "pd.wasted_decode_tokens")
    return AbortCodes(
        reason=abort.text("pd.abort.reason") or "",
        origin=abort.text("pd.abort.origin") or "",
        via=abort.text("pd.abort.via") or "",
        stage=abort.text("pd.abort.stage") or "",
        received_ns=number(abort, "pd.abort.received_ns"),
        released_ns=number(abort, "pd.abort.released_ns"),
        wasted_prefill=prefill if prefill is not None else total * is_prefill,
        wasted_decode=decode if decode is not None else total * (not is_prefill),
    )


def whats_wrong(half: Half, abort: Span) -> str | None:
    """Codes that contradict each other inside one abort span."""
    codes = codes_of(half, abort)
    if codes.reason not in ORIGINS:
        return f"reason {codes.reason!r} is no code"
    if codes.origin not in ORIGINS[codes.reason]:
        return f"{codes.reason} cannot have origin {codes.origin!r}"
    if codes.via not in (LOCAL, PEER):
        return f"via {codes.via!r} is no code"
    if codes.stage not in STAGES[half.role]:
        return f"a {half.role} request has no stage {codes.stage!r}"
    return _wrong_status(codes, abort)


def _wrong_status(codes: AbortCodes, abort: Span) -> str | None:
    """A client's own cancel is no error; any other abort is one, named by its reason."""
    reason, error_type = codes.reason, abort.text("error.type")
    if reason in CLIENT_REASONS and (reason, codes.origin) != (DEADLINE, "server"):
        is_error = abort.status == "error" or error_type is not None
        return f"{reason} is the client's own wish, yet an error" if is_error else None
    if abort.status != "error" or error_type != reason:
        return f"{reason} needs status error and error.type, has {abort.status} and {error_type}"
    return None


def legal_pair(one: AbortCodes, other: AbortCodes, *, link_broke: bool) -> bool:
    """Whether two halves of one room may end so.

    ========  ========  ======================================================================
    peer      peer      never: somebody must have decided
    peer      local     the same reason: it travels with the ABORT
    local     local     the same reason; any two while news could not get through (``link_broke``)
                        or was not there yet (within a second of each other); later only if one
                        is the client's own (the router drops a half late, when the other has
                        answered with an error)
    ========  ========  ======================================================================
    """
    if one.via == PEER and other.via == PEER:
        return False
    if one.reason == other.reason:
        return True
    if PEER in (one.via, other.via):
        return False
    if link_broke or {one.reason, other.reason} & CLIENT_REASONS:
        return True
    return _apart_ns(one, other) < NEWS_NS


def _apart_ns(one: AbortCodes, other: AbortCodes) -> int:
    """Between two releases. Without a stamp nothing speaks for a race."""
    if one.released_ns is None or other.released_ns is None:
        return NEWS_NS
    return abs(one.released_ns - other.released_ns)
