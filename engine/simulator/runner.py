"""`HashRunner`: a model whose next token is a hash of the KV pages that it reads.

A page that somebody else has overwritten, or that never arrived, changes every token after it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from engine.core.batch import ForwardItem
from engine.core.io_struct import TokenLogprob

EOS = 0
VOCAB = 256
NO_TOKEN = 255
"""What an untouched cell of a page holds."""

_TOKENS = tuple(TokenLogprob(token_id=token, logprob=-0.5, margin=1.0) for token in range(VOCAB))


def next_token(seen: bytes) -> int:
    """The model: any token but `NO_TOKEN`, so now and then `EOS`."""
    return zlib.crc32(seen) % NO_TOKEN


def expected_tokens(prompt: Sequence[int], max_new_tokens: int) -> tuple[int, ...]:
    """What a request must answer if nobody disturbs it."""
    seen = bytes(prompt)
    for _ in range(max_new_tokens):
        token = next_token(seen)
        seen += bytes((token,))
        if token == EOS:
            break
    return tuple(seen[len(prompt) :])


class HashRunner:
    """Implements `engine.core.batch.ForwardRunner`; a page is ``page_size`` bytes, a token each."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self._page_size = page_size
        self._cells = bytearray([NO_TOKEN]) * (num_pages * page_size)

    @property
    def page_bytes(self) -> int:
        return self._page_size

    def forward(self, items: Sequence[ForwardItem]) -> list[TokenLogprob | None]:
        return [self._one(item) for item in items]

    def _one(self, item: ForwardItem) -> TokenLogprob | None:
        size, cells, pages = self._page_size, self._cells, item.page_ids
        for position, token in enumerate(item.input_ids, start=item.start):
            cells[pages[position // size] * size + position % size] = token
        if not item.wants_token:
            return None
        total = item.start + len(item.input_ids)
        seen = self.gather_pages(pages[: -(-total // size)])[:total]
        return _TOKENS[next_token(seen)]

    def spoil(self, items: Sequence[ForwardItem]) -> None:
        """A forward was left in the middle: what it wrote is not the KV of its tokens."""
        size, cells = self._page_size, self._cells
        for item in items:
            for position in range(item.start, item.start + len(item.input_ids)):
                cells[item.page_ids[position // size] * size + position % size] = NO_TOKEN

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        size, cells = self._page_size, self._cells
        return b"".join([cells[page * size : page * size + size] for page in page_ids])

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        size = self._page_size
        for index, page in enumerate(page_ids):
            self._cells[page * size : page * size + size] = data[index * size : (index + 1) * size]
