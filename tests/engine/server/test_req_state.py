"""`ReqState`: what an accepted abort leaves for the client."""

from __future__ import annotations

import pytest

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import FinishReason, SamplingParams, TokenLogprob
from engine.server.req_state import AbortNote, ReqState

NOTE = AbortNote(
    reason=AbortReason.CLIENT_ABORT, origin=AbortOrigin.CLIENT, message="m", received_ns=5
)


def make_state(*, stream: bool) -> ReqState:
    return ReqState(
        rid="r",
        room=None,
        num_prompt_tokens=1,
        sampling_params=SamplingParams(),
        received_ns=1,
        tokenized_ns=2,
        stream=stream,
    )


def tokens(*ids: int) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token_id=token_id, logprob=0.0, margin=1.0) for token_id in ids)


@pytest.mark.parametrize(("stream", "left"), [(True, [1, 2]), (False, [1, 2, 3])])
def test_an_abort_keeps_what_the_client_has(stream: bool, left: list[int]) -> None:
    """A stream keeps the events already sent; a plain answer keeps all there was."""
    state = make_state(stream=stream)
    state.take_tokens(tokens(1, 2), 10)
    state.num_sent = 2 if stream else 0
    state.take_tokens(tokens(3), 11)

    state.accept_abort(NOTE)
    state.take_tokens(tokens(4), 12)

    assert [token.token_id for token in state.tokens] == left
    assert state.first_token_ns == 10


def test_the_end_is_a_change() -> None:
    state = make_state(stream=True)
    state.end(FinishReason(type="stop"), 9)
    assert state.changed.is_set()
    assert state.ended_ns == 9
