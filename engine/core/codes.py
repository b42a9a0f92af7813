"""Every code that answers, spans, metrics and reports share (DESIGN 2.4). One enum each."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class DisaggregationMode(StrEnum):
    """Role of a worker. ``null`` is SGLang's name for unified and is accepted as an alias."""

    UNIFIED = "unified"
    PREFILL = "prefill"
    DECODE = "decode"


class AbortReason(StrEnum):
    """Root cause of an abort; travels in the ABORT frame. The first reason wins."""

    CLIENT_ABORT = "client_abort"
    CLIENT_DISCONNECT = "client_disconnect"
    DEADLINE = "deadline"
    QUEUE_FULL = "queue_full"
    INPUT_TOO_LONG = "input_too_long"
    KV_EXHAUSTED = "kv_exhausted"
    BOOTSTRAP_TIMEOUT = "bootstrap_timeout"
    PEER_DEAD = "peer_dead"
    TRANSFER_FAILED = "transfer_failed"
    TRANSFER_TIMEOUT = "transfer_timeout"
    SHUTDOWN = "shutdown"


class AbortOrigin(StrEnum):
    CLIENT = "client"
    SERVER = "server"
    OPERATOR = "operator"


class AbortVia(StrEnum):
    """Whether this half decided, or was told by its peer."""

    LOCAL = "local"
    PEER = "peer"


class PeerState(StrEnum):
    """SUSPECT is a gauge (phi accrual) and decides nothing."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"


class Stage(StrEnum):
    """Where a request is. Unified and prefill use the first six, prefill TRANSFER, decode the rest."""

    TOKENIZE = "tokenize"
    QUEUE = "queue"
    BOOTSTRAP = "bootstrap"
    WAITING = "waiting"
    MID_CHUNK = "mid_chunk"
    LAST_CHUNK = "last_chunk"
    TRANSFER = "transfer"
    PREALLOC = "prealloc"
    DECODE_TRANSFER = "decode_transfer"
    DECODE_WAITING = "decode_waiting"
    RUNNING = "running"


class KVPoll(IntEnum):
    """State of a room (SGLang `KVPoll`). MIN over ranks: any rank's Failed wins."""

    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


CLIENT_REASONS = frozenset(
    {AbortReason.CLIENT_ABORT, AbortReason.CLIENT_DISCONNECT, AbortReason.DEADLINE}
)
"""Aborts that a client can ask for (a deadline may also be the server's, by its origin)."""

HTTP_STATUS: dict[AbortReason, int] = {
    AbortReason.CLIENT_ABORT: 200,
    AbortReason.CLIENT_DISCONNECT: 200,
    AbortReason.DEADLINE: 504,
    AbortReason.QUEUE_FULL: 503,
    AbortReason.INPUT_TOO_LONG: 400,
    AbortReason.KV_EXHAUSTED: 503,
    AbortReason.BOOTSTRAP_TIMEOUT: 504,
    AbortReason.PEER_DEAD: 503,
    AbortReason.TRANSFER_FAILED: 500,
    AbortReason.TRANSFER_TIMEOUT: 504,
    AbortReason.SHUTDOWN: 503,
}
"""HTTP status of the answer to an aborted request, by root cause, unless the client asked for it."""


def is_clients_own(reason: AbortReason, origin: AbortOrigin) -> bool:
    """Did the client ask for this end? Then it is no error: span status UNSET, answer 200."""
    if reason is AbortReason.DEADLINE:
        return origin is AbortOrigin.CLIENT
    return reason in CLIENT_REASONS


def http_status(reason: AbortReason, origin: AbortOrigin) -> int:
    """Status of the answer to an aborted request."""
    return 200 if is_clients_own(reason, origin) else HTTP_STATUS[reason]
