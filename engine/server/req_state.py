"""`ReqState`: one open request as the HTTP process sees it (SGLang's `rid_to_state` entries)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import FinishReason, SamplingParams, TokenLogprob
from engine.telemetry.context import TraceParent


class AbortNote(msgspec.Struct, frozen=True, kw_only=True):
    """An abort that this side has accepted. The first one stays."""

    reason: AbortReason
    origin: AbortOrigin
    message: str
    received_ns: int


@dataclass(slots=True, eq=False)
class ReqState:
    """Mutable, and touched by the event loop only. ``*_ns`` are CLOCK_MONOTONIC.

    ``tokens`` are those the client has or will get; ``num_sent`` of them are in events already sent.
    ``changed`` is set whenever there is something new to look at.
    """

    rid: str
    room: int | None
    num_prompt_tokens: int
    sampling_params: SamplingParams
    received_ns: int
    tokenized_ns: int
    stream: bool = False
    return_logprob: bool = False
    top_logprobs_num: int = 0
    parent: TraceParent | None = None
    prompt_field: str = "text"
    is_probe: bool = False
    tokens: list[TokenLogprob] = field(default_factory=list)
    num_sent: int = 0
    num_cached_tokens: int = 0
    first_token_ns: int = 0
    ended_ns: int = 0
    client_gone: bool = False
    abort: AbortNote | None = None
    finish: FinishReason | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def accept_abort(self, note: AbortNote) -> None:
        """From now on no output reaches the client: what was not sent yet is dropped."""
        self.abort = note
        if self.stream:
            del self.tokens[self.num_sent :]
        self.changed.set()

    def take_tokens(self, tokens: tuple[TokenLogprob, ...], now_ns: int) -> None:
        """Add output, unless an abort was accepted before it arrived."""
        if self.abort is not None or not tokens:
            return
        self.first_token_ns = self.first_token_ns or now_ns
        self.tokens.extend(tokens)

    def end(self, finish: FinishReason, now_ns: int) -> None:
        """The one terminal answer; nothing changes after it."""
        self.finish = finish
        self.ended_ns = now_ns
        self.changed.set()

    async def next_change(self) -> None:
        """Wait until something happened since the last call."""
        await self.changed.wait()
        self.changed.clear()
