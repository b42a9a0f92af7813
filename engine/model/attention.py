"""Attention of a batch's rows, each to its own request's cache alone.

Rows of a prefill chunk run request by request. Single rows (decode, or the last row of a chunk) of
like context length run together: each context is padded to a multiple of `PAD_TOKENS` that depends on
its own length only, so that a row's bits are the same alone and in company.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.model.kv_pool import KvPool

PAD_TOKENS = 64
GROUP_TOKENS = 2048
"""Contexts of one group, all together: about what stays in the cache between copy and use."""


@dataclass(frozen=True, slots=True)
class Context:
    """A request's tokens up to some row: ``num_tokens``, standing in ``pages`` in order."""

    num_tokens: int
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows ``rows`` are the last of the context's tokens. ``mask``: None if they are all of them."""

    rows: slice
    num_context: int
    blocks: torch.Tensor
    mask: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Group:
    """Single rows with contexts of the same padded length. ``mask``: [rows, 1, 1, padded length]."""

    rows: slice | torch.Tensor
    blocks: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What one layer's attention does; the same for every layer. ``blocks`` are [layers, blocks]."""

    chunks: tuple[Chunk, ...]
    groups: tuple[Group, ...]


def plan_chunk(rows: slice, context: Context, pool: KvPool) -> Chunk:
    """Attention of several rows of one request."""
    num_rows = rows.stop - rows.start
    num_cached = context.num_tokens - num_rows
    mask = None
    if num_cached:
        mask = pool.new_full((num_rows, context.num_tokens), float("-inf")).triu_(num_cached + 1)
    return Chunk(rows, context.num_tokens, pool.blocks_of(context.pages), mask)


def plan_groups(contexts: Iterable[tuple[int, Context]], pool: KvPool) -> tuple[Group, ...]:
    """Attention of single rows, given as (row, its context)."""
    unit = max(1, PAD_TOKENS // pool.page_size)
    alike: dict[int, list[tuple[int, Context]]] = {}
    for row, context in contexts:
        num_pages = -(-len(context.pages) // unit) * unit
        alike.setdefault(num_pages, []).append((row, context))
    groups = []
    for num_pages, members in alike.items():
        most = max(1, GROUP_TOKENS // (num_pages * pool.page_size))
        groups += [
            _plan_group(members[i : i + most], num_pages, pool)
            for i in range(0, len(members), most)
        ]
    return tuple(groups)


def _plan_group(members: Sequence[tuple[int, Context]], num_pages: int, pool: KvPool) -> Group:
    rows = [row for row, _ in members]
    pages: list[int] = []
    for _, context in members:
        # Padding reads the request's own last page: nobody else's bytes, however broken, come in.
        pages += context.pages + context.pages[-1:] * (num_pages - len(context.pages))
    lengths = pool.index([context.num_tokens for _, context in members]).view(-1, 1, 1, 1)
    places = torch.arange(num_pages * pool.page_size, device=lengths.device)
    mask = pool.new_full((len(members), 1, 1, len(places)), 0.0)
    return Group(
        rows=_as_slice(rows) or pool.index(rows),
        blocks=pool.blocks_of(pages),
        mask=mask.masked_fill_(places >= lengths, float("-inf")),
    )


def _as_slice(rows: Sequence[int]) -> slice | None:
    """The rows as a slice, if they follow each other: it costs no copy."""
    span = range(rows[0], rows[0] + len(rows))
    return slice(span.start, span.stop) if list(rows) == list(span) else None


def attend(layer: int, queries: torch.Tensor, plan: AttentionPlan, pool: KvPool) -> torch.Tensor:
    """Attention output [rows, heads * head_dim] of ``queries`` [rows, heads, head_dim].

    Rows that the plan does not name are padding and come out as zeros.
    """
    out = queries.new_zeros(queries.shape)
    for chunk in plan.chunks:
        out[chunk.rows] = _attend_chunk(layer, queries[chunk.rows], chunk, pool)
    for group in plan.groups:
        out[group.rows] = _attend_group(layer, queries[group.rows], group, pool)
    return out.flatten(1)


def _attend_chunk(layer: int, queries: torch.Tensor, chunk: Chunk, pool: KvPool) -> torch.Tensor:
    context = pool.read(chunk.blocks[layer])[:, :, : chunk.num_context]
    attended = scaled_dot_product_attention(
        queries.transpose(0, 1).unsqueeze(0),
        context[:1],
        context[1:],
        attn_mask=chunk.mask,
        is_causal=chunk.mask is None,
        enable_gqa=True,
    )
    return attended[0].transpose(0, 1)


def _attend_group(layer: int, queries: torch.Tensor, group: Group, pool: KvPool) -> torch.Tensor:
    context = pool.read(group.blocks[layer])
    _, kv_heads, _, head_dim = context.shape
    # [2, kv_heads, rows * length, head_dim] -> twice [rows, kv_heads, length, head_dim]
    k, v = context.view(2, kv_heads, len(queries), -1, head_dim).transpose(1, 2)
    # The heads that share a K and V go in as so many queries of one head.
    folded = queries.view(len(queries), kv_heads, -1, head_dim)
    return scaled_dot_product_attention(folded, k, v, attn_mask=group.mask).flatten(1, 2)
