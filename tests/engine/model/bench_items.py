"""Drives a runner as the scheduler would: chunks, then one token at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence

from engine.core.batch import ForwardItem
from engine.core.io_struct import SamplingParams, TokenLogprob
from engine.model.runner import ModelRunner

CHUNK = 256


def random_prompt(seed: int, length: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(32, 127) for _ in range(length)]


def make_item(
    ids: Sequence[int],
    start: int,
    pages: Sequence[int],
    output_index: int | None = 0,
    params: SamplingParams | None = None,
) -> ForwardItem:
    """``output_index`` None: no token is wanted."""
    return ForwardItem(
        rid="r",
        input_ids=tuple(ids),
        start=start,
        page_ids=tuple(pages),
        wants_token=output_index is not None,
        sampling_params=params or SamplingParams(),
        output_index=output_index or 0,
        top_logprobs_num=2,
    )


def chunk_items(
    prompt: Sequence[int], pages: Sequence[int], params: SamplingParams | None = None
) -> list[ForwardItem]:
    return [
        make_item(
            prompt[start : start + CHUNK],
            start,
            pages,
            0 if start + CHUNK >= len(prompt) else None,
            params,
        )
        for start in range(0, len(prompt), CHUNK)
    ]


def prefill(
    runner: ModelRunner,
    prompt: Sequence[int],
    pages: Sequence[int],
    params: SamplingParams | None = None,
) -> TokenLogprob:
    token: TokenLogprob | None = None
    for item in chunk_items(prompt, pages, params):
        (token,) = runner.forward([item])
    assert token is not None
    return token


def go_on(
    runner: ModelRunner,
    prompt: Sequence[int],
    pages: Sequence[int],
    first: TokenLogprob,
    count: int,
    params: SamplingParams | None = None,
) -> list[int]:
    """``count`` tokens, the first of them given."""
    out = [first.token_id]
    while len(out) < count:
        start = len(prompt) + len(out) - 1
        (token,) = runner.forward([make_item(out[-1:], start, pages, len(out), params)])
        assert token is not None
        out.append(token.token_id)
    return out


def generate(
    runner: ModelRunner,
    prompt: Sequence[int],
    pages: Sequence[int],
    count: int,
    params: SamplingParams | None = None,
) -> list[int]:
    return go_on(runner, prompt, pages, prefill(runner, prompt, pages, params), count, params)
