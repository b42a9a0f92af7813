"""The one outcome of a request, from what was received and what the client did. Pure."""

from __future__ import annotations

import msgspec

from loadtest.frames import ServerAbort
from loadtest.history import AbortKind, Outcome
from loadtest.transcript import Transcript

_HTTP_OK = 200
_ABORT = "abort"
_CLIENT = "client"
_CLOSED = {
    AbortKind.DISCONNECT: Outcome.ABORTED_DISCONNECT,
    AbortKind.DEADLINE: Outcome.ABORTED_DEADLINE,
}
ABORTED_BY_CLIENT = frozenset(
    {Outcome.ABORTED_DISCONNECT, Outcome.ABORTED_RID, Outcome.ABORTED_DEADLINE}
)
FAILED = frozenset({Outcome.TRUNCATED, Outcome.HTTP_ERROR, Outcome.CONN_ERROR, Outcome.NOT_SENT})


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the exchange ended on the client's side.

    ``acted``: the abort that the client carried out. ``broken``: why the connection is of no more use.
    ``not_sent``: the driver stopped before the first byte left.
    """

    acted: AbortKind | None = None
    broken: str | None = None
    not_sent: bool = False


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """``abort``: what the server said of an abort of its own (or of ours)."""

    outcome: Outcome
    message: str | None = None
    abort: ServerAbort | None = None


def judge(transcript: Transcript, ending: Ending) -> Judgment:
    """What closed the connection comes first, then what the server answered, then what is missing."""
    if ending.not_sent:
        return Judgment(outcome=Outcome.NOT_SENT, message=ending.broken)
    if ending.acted in _CLOSED:
        return Judgment(outcome=_CLOSED[ending.acted])
    if transcript.server_abort is not None:
        return _server_abort(transcript.server_abort, ending)
    if transcript.foreign_error is not None and transcript.finish is None:
        return Judgment(outcome=Outcome.HTTP_ERROR, message=transcript.foreign_error)
    if transcript.done and transcript.finish is not None:
        return _finished(transcript, ending)
    if ending.broken is not None:
        return _broken(transcript, ending)
    missing = "[DONE]" if transcript.finish is not None else "a finish reason"
    return Judgment(outcome=Outcome.TRUNCATED, message=f"the stream ended without {missing}")


def _server_abort(abort: ServerAbort, ending: Ending) -> Judgment:
    ours = ending.acted is AbortKind.RID and abort.origin == _CLIENT
    outcome = Outcome.ABORTED_RID if ours else Outcome.ABORTED_SERVER
    return Judgment(outcome=outcome, message=abort.message, abort=abort)


def _finished(transcript: Transcript, ending: Ending) -> Judgment:
    finish = transcript.finish
    if finish is None or finish.type != _ABORT:
        return Judgment(outcome=Outcome.COMPLETED)
    abort = ServerAbort(
        message=finish.message, reason=finish.reason, stage=finish.stage, origin=finish.origin
    )
    asked = ending.acted is AbortKind.RID
    outcome = Outcome.ABORTED_RID if asked else Outcome.ABORTED_SERVER
    return Judgment(outcome=outcome, message=abort.message, abort=abort)


def _broken(transcript: Transcript, ending: Ending) -> Judgment:
    if transcript.status not in (None, _HTTP_OK):
        return Judgment(outcome=Outcome.HTTP_ERROR, message=ending.broken)
    return Judgment(outcome=Outcome.CONN_ERROR, message=ending.broken)
