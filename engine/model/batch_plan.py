"""`BatchPlan`: a batch's items turned into the index tensors of one forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.core.batch import ForwardItem
from engine.model.attention import AttentionPlan, Chunk, Context, plan_chunk, plan_groups
from engine.model.errors import PageTableError
from engine.model.kv_pool import KvPool


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Rows are tokens, item after item, then padding up to the row count that keeps bits stable.

    ``input_ids``, ``positions``: [padded rows]. ``kv_rows``: where the rows' K and V go, by layer.
    ``fresh_pages``: pages that are entered and not filled, to be cleared first. ``sampled``: the
    last rows of the items that want a token, padded likewise; the last layer goes on with these
    ``num_sampled`` rows alone, by its own plan.
    """

    num_rows: int
    input_ids: torch.Tensor
    positions: torch.Tensor
    kv_rows: torch.Tensor
    fresh_pages: tuple[int, ...]
    attention: AttentionPlan
    num_sampled: int
    sampled: torch.Tensor
    last_attention: AttentionPlan


def make_plan(items: Sequence[ForwardItem], pool: KvPool, min_rows: int) -> BatchPlan:
    """Plan a batch of at least one item. Raises PageTableError."""
    input_ids: list[int] = []
    positions: list[int] = []
    pages: list[int] = []
    fresh_pages: list[int] = []
    chunks: list[Chunk] = []
    singles: list[tuple[int, Context]] = []
    sampled: list[tuple[int, Context]] = []
    for item in items:
        context = _context(item, pool)
        rows = slice(len(input_ids), len(input_ids) + len(item.input_ids))
        item_positions = range(item.start, context.num_tokens)
        input_ids += item.input_ids
        positions += item_positions
        pages += [context.pages[position // pool.page_size] for position in item_positions]
        if item.start <= context.num_tokens // pool.page_size * pool.page_size < context.num_tokens:
            fresh_pages.append(context.pages[-1])
        if len(item.input_ids) == 1:
            singles.append((rows.start, context))
        else:
            chunks.append(plan_chunk(rows, context, pool))
        if item.wants_token:
            sampled.append((rows.stop - 1, context))
    attention = AttentionPlan(tuple(chunks), plan_groups(singles, pool))
    padding = [0] * (min_rows - len(input_ids))
    return BatchPlan(
        num_rows=len(input_ids),
        input_ids=pool.index(input_ids + padding),
        positions=pool.index(positions + padding),
        kv_rows=pool.rows_of(pages, [position % pool.page_size for position in positions]),
        fresh_pages=tuple(fresh_pages),
        attention=attention,
        num_sampled=len(sampled),
        sampled=pool.index([row for row, _ in sampled] + [0] * (min_rows - len(sampled))),
        last_attention=_plan_last(sampled, len(input_ids), attention, pool),
    )


def _plan_last(
    sampled: Sequence[tuple[int, Context]], num_rows: int, attention: AttentionPlan, pool: KvPool
) -> AttentionPlan:
    """Attention of the sampled rows, numbered anew."""
    if len(sampled) == num_rows:  # decode only: the same rows in the same order
        return attention
    contexts = ((i, context) for i, (_, context) in enumerate(sampled))
    return AttentionPlan((), plan_groups(contexts, pool))


def _context(item: ForwardItem, pool: KvPool) -> Context:
    """The item's tokens so far; its later pages are for later tokens."""
    num_tokens = item.start + len(item.input_ids)
    count = -(-num_tokens // pool.page_size)
    if not item.input_ids or item.start < 0 or len(item.page_ids) < count:
        raise PageTableError(
            f"{item.rid}: {len(item.input_ids)} tokens at {item.start} do not fit its "
            f"{len(item.page_ids)} pages of {pool.page_size}"
        )
    pages = item.page_ids[:count]
    pool.check_pages(pages)
    return Context(num_tokens, pages)
