"""What the scheduler hands to a forward runner, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from engine.core.io_struct import SamplingParams, TokenLogprob


class ForwardItem(msgspec.Struct, frozen=True, kw_only=True):
    """One request's share of a batch.

    ``input_ids`` are the tokens to run now; the first stands at position ``start`` (= tokens already
    cached). ``page_ids`` are the request's KV pages in order and cover start + len(input_ids) tokens.
    ``wants_token``: sample after the last of them. ``output_index``: index of that token in the output.
    """

    rid: str
    input_ids: tuple[int, ...]
    start: int
    page_ids: tuple[int, ...]
    wants_token: bool
    sampling_params: SamplingParams
    output_index: int = 0
    top_logprobs_num: int = 0


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """A forward that was told to stop between two layers. It is no progress: its pages are as before
    for everybody who reads them, and its items can run again."""

    num_layers_run: int


ForwardResult = list[TokenLogprob | None] | Cancelled
"""One entry an item, None where no token was wanted; or nothing at all."""

ShouldStop = Callable[[], bool]


def never() -> bool:
    """Run every forward to its end."""
    return False


class ForwardRunner(Protocol):
    """The model seen from the scheduler loop. Runs on the scheduler thread only."""

    @property
    def page_bytes(self) -> int:
        """Bytes of one KV page over all layers, K and V."""
        ...

    def forward(
        self, items: Sequence[ForwardItem], should_stop: ShouldStop = never
    ) -> ForwardResult:
        """Run one batch. ``should_stop`` is asked twice a layer; once it says yes, the rest is left."""
        ...

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        """Copy pages out: len(page_ids) * page_bytes bytes, page-major."""
        ...

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        """Copy pages in; the inverse of `gather_pages`."""
        ...
