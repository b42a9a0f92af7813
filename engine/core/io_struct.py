"""Messages between the tokenizer side (HTTP process) and the scheduler process, and what both share.

SGLang keeps the same name (`managers/io_struct.py`). Encoded as msgspec msgpack, one tagged union a
direction. All ``*_ns`` are CLOCK_MONOTONIC nanoseconds, comparable between processes of one host.
"""

from __future__ import annotations

import msgspec

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, PeerState, Stage

Scalar = str | int | float | bool


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """temperature 0 is greedy; ``seed`` makes temperature sampling repeatable."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    ignore_eos: bool = False
    seed: int = 0


class AbortInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request ended early. ``received_ns``: when this worker first knew."""

    reason: AbortReason
    origin: AbortOrigin
    via: AbortVia
    stage: Stage
    message: str
    received_ns: int
    released_ns: int = 0


class FinishReason(msgspec.Struct, frozen=True, kw_only=True):
    """type: stop | length | abort (SGLang's FINISH_*)."""

    type: str
    matched: int | None = None
    length: int | None = None
    abort: AbortInfo | None = None


class SpanStamp(msgspec.Struct, frozen=True, kw_only=True):
    """One span, as stamped in the hot loop. ``parent`` indexes the record's list; -1 is the role span."""

    name: str
    start_ns: int
    end_ns: int
    parent: int = -1
    attributes: dict[str, Scalar] = {}


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All scheduler-side spans of one request, sent once, with its last output."""

    spans: tuple[SpanStamp, ...]
    abort: AbortInfo | None
    num_wasted_prefill_tokens: int = 0
    num_wasted_decode_tokens: int = 0


# ---- tokenizer side -> scheduler ------------------------------------------------------------


class TokenizedGenerateReqInput(msgspec.Struct, frozen=True, kw_only=True, tag="generate"):
    """``deadline_ns``: when the client gives up, 0 for never."""

    rid: str
    input_ids: tuple[int, ...]
    sampling_params: SamplingParams
    received_ns: int
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None
    top_logprobs_num: int = 0
    deadline_ns: int = 0


class AbortReq(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """Abort by rid (exact unless ``prefix``), one (rid, room), or everything."""

    rid: str
    reason: AbortReason
    origin: AbortOrigin
    received_ns: int
    prefix: bool = False
    abort_all: bool = False
    bootstrap_room: int | None = None
    message: str = "Aborted"


class RefusedReq(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The HTTP side refused a request of a pair (HTTP 400): its other half must not wait for it."""

    bootstrap_room: int
    reason: AbortReason
    message: str
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None


class ControlReq(msgspec.Struct, frozen=True, kw_only=True, tag="control"):
    """op: ledger | loads | request | pause | continue | flush | health. ``rid`` for op=request."""

    id: int
    op: str
    rid: str = ""


ToScheduler = TokenizedGenerateReqInput | AbortReq | RefusedReq | ControlReq

# ---- scheduler -> tokenizer side ------------------------------------------------------------


class TokenLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """``margin``: difference of the two best logits. ``top``: (token id, logprob), best first."""

    token_id: int
    logprob: float
    margin: float
    top: tuple[tuple[int, float], ...] = ()


class TokenOut(msgspec.Struct, frozen=True, kw_only=True, tag="tokens"):
    """New tokens of one request; the last one carries ``finish`` and ``trace``, exactly once."""

    rid: str
    bootstrap_room: int | None
    tokens: tuple[TokenLogprob, ...] = ()
    num_cached_tokens: int = 0
    finish: FinishReason | None = None
    trace: TraceRecord | None = None


class ControlResp(msgspec.Struct, frozen=True, kw_only=True, tag="control"):
    """``body``: JSON text, answered as it is; empty: not found."""

    id: int
    body: bytes


class SchedulerBeat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """Sent by the scheduler's I/O thread every 250 ms: loop step, and the age of the current step."""

    step: int
    step_age_ns: int


class SchedulerReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """First message: the model is loaded and the links are bound."""

    incarnation: str
    fingerprint: str
    vocab_size: int
    eos_token_id: int
    num_pages: int
    page_size: int
    context_length: int
    control_endpoint: str = ""


class PeerSample(msgspec.Struct, frozen=True, kw_only=True):
    """One peer that was up at least once. ``phi``: how surprising its silence is (8: suspect)."""

    peer: str
    state: PeerState
    phi: float


class GaugeSample(msgspec.Struct, frozen=True, kw_only=True, tag="gauges"):
    """Scheduler gauges and counters for /metrics, every 250 ms with the beat.

    ``peer_changes``: how often a peer came into each state.
    """

    values: dict[str, float]
    peers: tuple[PeerSample, ...] = ()
    peer_changes: dict[PeerState, int] = {}


FromScheduler = TokenOut | ControlResp | SchedulerBeat | SchedulerReady | GaugeSample
