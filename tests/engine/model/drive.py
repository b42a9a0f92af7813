"""Run requests on a runner as a scheduler would: chunks on each request's own grid, then decode."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.core.batch import ForwardItem
from engine.core.io_struct import SamplingParams, TokenLogprob
from engine.model.runner import ModelRunner

PAGE_SIZE = 16
CHUNK = 256
TEXT = inspect.getsource(argparse).encode()


def make_prompt(index: int, length: int) -> tuple[int, ...]:
    """Bytes of real text, different for each index."""
    start = index * 1_999 % (len(TEXT) - length)
    return tuple(TEXT[start : start + length])


def pages_for(num_tokens: int) -> int:
    return -(-num_tokens // PAGE_SIZE)


@dataclass
class Request:
    """One request; ``start`` tokens of it are cached."""

    prompt: tuple[int, ...]
    page_ids: tuple[int, ...]
    num_tokens: int = 32
    params: SamplingParams = field(default_factory=SamplingParams)
    top_logprobs_num: int = 0
    chunk: int = CHUNK
    start: int = 0
    output: list[TokenLogprob] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return len(self.output) == self.num_tokens

    @property
    def token_ids(self) -> list[int]:
        return [token.token_id for token in self.output]

    def next_item(self) -> ForwardItem:
        known = self.prompt + tuple(self.token_ids)
        ids = known[self.start : self.start + self.chunk]
        return ForwardItem(
            rid="r",
            input_ids=ids,
            start=self.start,
            page_ids=self.page_ids,
            wants_token=self.start + len(ids) == len(known),
            sampling_params=self.params,
            output_index=len(self.output),
            top_logprobs_num=self.top_logprobs_num,
        )


def step(runner: ModelRunner, requests: Sequence[Request]) -> None:
    """One batch of all requests."""
    items = [request.next_item() for request in requests]
    for request, item, token in zip(requests, items, runner.forward(items), strict=True):
        assert (token is not None) == item.wants_token
        request.start += len(item.input_ids)
        if token is not None:
            request.output.append(token)


def finish(runner: ModelRunner, *requests: Request) -> list[list[TokenLogprob]]:
    """Run requests together until all are done."""
    while open_ones := [request for request in requests if not request.is_done]:
        step(runner, open_ones)
    return [request.output for request in requests]


def prefill(runner: ModelRunner, request: Request) -> None:
    """Run one request until it has its first token."""
    while not request.output:
        step(runner, [request])
