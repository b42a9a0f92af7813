"""`BatchPlan`: a batch's items turned into the index tensors of one forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.core.batch import ForwardItem
from engine.model.errors import PageTableError
from engine.model.kv_pool import KvPool


@dataclass(frozen=True, slots=True)
class Span:
    """One request's share: its rows in the batch, and its blocks among those read from the pool.

    ``num_cached``: tokens before the first row. ``num_context``: those and the rows.
    """

    first_row: int
    num_rows: int
    first_block: int
    num_blocks: int
    num_cached: int

    @property
    def num_context(self) -> int:
        return self.num_cached + self.num_rows


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Rows are tokens, item after item, then padding up to the row count that keeps bits stable.

    ``input_ids``, ``positions``: [padded rows]. ``slots``: [layers, rows], where each row's KV goes.
    ``blocks``: [layers, blocks], all spans' pages in order. ``sampled``: the last row of each
    item that wants a token.
    """

    num_rows: int
    input_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    blocks: torch.Tensor
    spans: tuple[Span, ...]
    sampled: tuple[int, ...]


def make_plan(
    items: Sequence[ForwardItem], pool: KvPool, min_rows: int, device: torch.device
) -> BatchPlan:
    """Plan a batch of at least one item. Raises PageTableError."""
    input_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    pages: list[int] = []
    spans: list[Span] = []
    for item in items:
        used = _used_pages(item, pool)
        num_rows = len(item.input_ids)
        spans.append(Span(len(input_ids), num_rows, len(pages), len(used), item.start))
        item_positions = range(item.start, item.start + num_rows)
        input_ids += item.input_ids
        positions += item_positions
        slots += _slots(item_positions, used, pool)
        pages += used
    padding = [0] * (min_rows - len(input_ids))
    layers = torch.arange(pool.num_layers, device=device).unsqueeze(1)

    def index(values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    return BatchPlan(
        num_rows=len(input_ids),
        input_ids=index(input_ids + padding),
        positions=index(positions + padding),
        slots=index(slots) + layers * pool.page_size,
        blocks=index(pages) * pool.num_layers + layers,
        spans=tuple(spans),
        sampled=tuple(
            span.first_row + span.num_rows - 1
            for span, item in zip(spans, items, strict=True)
            if item.wants_token
        ),
    )


def _used_pages(item: ForwardItem, pool: KvPool) -> tuple[int, ...]:
    """The pages that hold the item's tokens so far; its later ones are for later tokens."""
    num_tokens = item.start + len(item.input_ids)
    count = -(-num_tokens // pool.page_size)
    if not item.input_ids or item.start < 0 or len(item.page_ids) < count:
        raise PageTableError(
            f"{item.rid}: {len(item.input_ids)} tokens at {item.start} do not fit its "
            f"{len(item.page_ids)} pages of {pool.page_size}"
        )
    used = item.page_ids[:count]
    pool.check_pages(used)
    return used


def _slots(positions: range, pages: tuple[int, ...], pool: KvPool) -> list[int]:
    """Slots of layer 0."""
    size, stride = pool.page_size, pool.page_size * pool.num_layers
    return [pages[p // size] * stride + p % size for p in positions]
