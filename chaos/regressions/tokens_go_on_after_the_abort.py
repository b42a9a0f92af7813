"""Tokens of the forward in flight reach the client after its abort was accepted (after sglang#34149: one
token and then the abort)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

import engine.server.generate
from engine.core.decode import DecodeScheduler
from engine.core.io_struct import TokenLogprob
from engine.core.schedule_batch import ScheduleBatch
from engine.model.tokenizer import Tokenizer
from engine.server.answers import GenerateAnswer
from engine.server.inbox import ForwardWatch
from engine.server.req_state import AbortNote, ReqState

_CLAIMED: dict[int, int] = {}


def apply() -> None:
    answer = engine.server.generate.generate_answer  # type: ignore[attr-defined]

    def accept(self: ReqState, note: AbortNote) -> None:
        """The claim is fixed here, and what comes later is streamed all the same."""
        _CLAIMED[id(self)] = len(self.tokens)
        self.abort = note
        self.changed.set()

    def take(self: ReqState, tokens: tuple[TokenLogprob, ...], now_ns: int) -> None:
        if tokens:
            self.first_token_ns = self.first_token_ns or now_ns
            self.tokens.extend(tokens)

    def claim(state: ReqState, tokenizer: Tokenizer, now_ns: int) -> GenerateAnswer:
        whole = answer(state, tokenizer, now_ns)
        if state.abort is None or state.finish is None:
            return whole
        claimed = _CLAIMED.pop(id(state), len(state.tokens))
        return replace(whole, meta_info=replace(whole.meta_info, completion_tokens=claimed))

    ReqState.accept_abort = accept  # type: ignore[method-assign]
    ReqState.take_tokens = take  # type: ignore[method-assign]
    engine.server.generate.generate_answer = claim  # type: ignore[attr-defined]
    _finish_the_forward()


def _finish_the_forward() -> None:
    """The scheduler neither stops the forward nor drains its result."""

    def process(
        self: DecodeScheduler,
        batch: ScheduleBatch,
        result: Sequence[TokenLogprob | None],
        now_ns: int,
    ) -> None:
        for key, token in zip(batch.keys, result, strict=True):
            req = self.reqs.get(key)
            if req is not None and not req.finished() and token is not None:
                req.num_cached_tokens += 1
                self.append_token(req, token, now_ns)

    def go_on(self: ForwardWatch) -> bool:
        return False

    DecodeScheduler._process_tokens = process  # type: ignore[method-assign]
    ForwardWatch.should_stop = go_on  # type: ignore[method-assign]
