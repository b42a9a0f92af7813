"""`history.jsonl`: what the client knows of every request, two lines each, as in Jepsen.

``sent`` is flushed before the first byte leaves; ``end`` when the client knows the outcome. A ``sent``
without an ``end`` is a hung request. All ``*_ns`` are CLOCK_MONOTONIC nanoseconds of ``host``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec


class AbortKind(StrEnum):
    DISCONNECT = "disconnect"
    RID = "rid"
    DEADLINE = "deadline"


class AbortAt(StrEnum):
    """Which workers an abort by rid goes to."""

    ALL = "all"
    PREFILL = "prefill"
    DECODE = "decode"


class Outcome(StrEnum):
    COMPLETED = "completed"
    ABORTED_DISCONNECT = "aborted_disconnect"
    ABORTED_RID = "aborted_rid"
    ABORTED_DEADLINE = "aborted_deadline"
    ABORTED_SERVER = "aborted_server"
    TRUNCATED = "truncated"
    HTTP_ERROR = "http_error"
    CONN_ERROR = "conn_error"
    NOT_SENT = "not_sent"


class AbortPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fire ``after_ms`` from the due time, or once ``after_tokens`` tokens were received. ``at``: one half
    alone, for a rid abort; the other half must hear of it from its peer."""

    kind: AbortKind
    after_ms: float | None = None
    after_tokens: int | None = None
    at: AbortAt = AbortAt.ALL


class AbortFired(msgspec.Struct, frozen=True, kw_only=True):
    """``due_ns``: when the plan wanted it. ``fired_ns``: when the client acted."""

    kind: AbortKind
    due_ns: int
    fired_ns: int
    matched: int | None = None


class Sent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="sent"):
    """``index`` and ``prompt_seed`` make the prompt again (`loadtest.prompts`); ``phase`` names the load."""

    rid: str
    trace_id: str
    scheduled_ns: int
    sent_ns: int
    isl: int
    abort_plan: AbortPlan | None
    index: int
    prompt_seed: int
    max_new_tokens: int
    phase: str
    host: str
    run_id: str
    wall_ns: int


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="end"):
    """The one outcome of a request. ``osl``: tokens received by the client.

    ``completion_tokens``: what the answer claimed (None: no final answer). ``num_late_tokens``: tokens
    received after the server's final event or beyond its claim. ``error_reason|stage|origin`` come
    from the server's error body. ``margins[i]``: difference of the two best logits of token i.
    """

    rid: str
    headers_ns: int | None
    first_ns: int | None
    last_ns: int | None
    end_ns: int
    osl: int
    outcome: Outcome
    status: int | None
    finish_reason: str | None
    text_sha256: str | None
    abort: AbortFired | None
    completion_tokens: int | None = None
    num_answers: int = 0
    num_late_tokens: int = 0
    output_ids: tuple[int, ...] = ()
    margins: tuple[float, ...] = ()
    error_reason: str | None = None
    error_stage: str | None = None
    error_origin: str | None = None
    error_message: str | None = None
    wall_ns: int = 0


HistoryRecord = Sent | End
_DECODER = msgspec.json.Decoder(HistoryRecord)


def read_history(path: Path) -> list[HistoryRecord]:
    """Read a history file. A torn last line (the writer was killed) is dropped; any other is an error."""
    lines = path.read_bytes().split(b"\n")
    torn = lines.pop()
    records = [_DECODER.decode(line) for line in lines if line]
    if torn:
        try:
            records.append(_DECODER.decode(torn))
        except msgspec.DecodeError:
            return records
    return records
