"""`Llama`: the decoder in plain eager torch (Touvron et al. 2023), over a paged KV cache.

A row is one token of the batch. All products run over all rows at once; attention runs request by
request. With enough rows (`find_stable_rows`) no row's bits then depend on the rest of the batch.
"""

from __future__ import annotations

import torch
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

from engine.model.batch_plan import BatchPlan, Span
from engine.model.config import ModelConfig
from engine.model.kv_pool import KvPool
from engine.model.rope import Rope
from engine.model.weights import LayerWeights, Weights


class Llama:
    """One model and its KV pool. ``min_rows``: rows are padded up to it."""

    def __init__(
        self, config: ModelConfig, weights: Weights, rope: Rope, pool: KvPool, min_rows: int
    ) -> None:
        self._config = config
        self._weights = weights
        self._rope = rope
        self._pool = pool
        self._min_rows = min_rows

    def forward(self, plan: BatchPlan) -> torch.Tensor | None:
        """Write the rows' KV; logits [len(plan.sampled), vocab], or None if no row is sampled."""
        hidden = embedding(plan.input_ids, self._weights.embed)
        turns = self._rope.at(plan.positions)
        masks = [_mask(span, hidden) for span in plan.spans]
        for index, layer in enumerate(self._weights.layers[:-1]):
            queries = self._project(index, layer, hidden, turns, plan)
            attended = self._attend(index, queries, plan, masks)
            hidden = self._mix(layer, hidden, attended)
        return self._finish(hidden, turns, plan)

    def _finish(
        self, hidden: torch.Tensor, turns: torch.Tensor, plan: BatchPlan
    ) -> torch.Tensor | None:
        """The last layer: KV of all rows, and the rest for the sampled rows alone."""
        index = len(self._weights.layers) - 1
        layer = self._weights.layers[index]
        queries = self._project(index, layer, hidden, turns, plan)
        if not plan.sampled:
            return None
        attended = self._attend_sampled(index, queries, plan)
        rows = list(plan.sampled)
        rows += rows[:1] * (self._min_rows - len(rows))
        hidden = self._mix(layer, hidden[rows], attended)
        hidden = self._norm(hidden, self._weights.norm)
        return linear(hidden, self._weights.lm_head)[: len(plan.sampled)]

    def _project(
        self,
        index: int,
        layer: LayerWeights,
        hidden: torch.Tensor,
        turns: torch.Tensor,
        plan: BatchPlan,
    ) -> torch.Tensor:
        """Store K and V of all rows; returns Q [padded rows, heads, head_dim]."""
        config = self._config
        qkv = linear(self._norm(hidden, layer.input_norm), layer.qkv)
        turned = qkv[:, : config.q_size + config.kv_size]
        self._rope.rotate_(turned.unflatten(1, (-1, config.head_dim)), turns)
        self._pool.write(plan.slots[index], qkv[: plan.num_rows, config.q_size :])
        return qkv[:, : config.q_size].unflatten(1, (-1, config.head_dim))

    def _attend(
        self,
        index: int,
        queries: torch.Tensor,
        plan: BatchPlan,
        masks: list[torch.Tensor | None],
    ) -> torch.Tensor:
        """Attention of each span to its own context: [padded rows, q_size]."""
        out = queries.new_zeros(queries.shape)
        kv = self._pool.read(plan.blocks[index])
        for span, mask in zip(plan.spans, masks, strict=True):
            rows = slice(span.first_row, span.first_row + span.num_rows)
            self._attend_span(queries[rows], self._context(kv, span), mask, out[rows])
        return out.flatten(1)

    def _attend_sampled(self, index: int, queries: torch.Tensor, plan: BatchPlan) -> torch.Tensor:
        """Attention of the sampled rows alone: [padded sampled rows, q_size]."""
        num_rows = max(len(plan.sampled), self._min_rows)
        out = queries.new_zeros((num_rows, *queries.shape[1:]))
        kv = self._pool.read(plan.blocks[index])
        last_rows = {span.first_row + span.num_rows - 1: span for span in plan.spans}
        for i, row in enumerate(plan.sampled):
            context = self._context(kv, last_rows[row])
            self._attend_span(queries[row : row + 1], context, None, out[i : i + 1])
        return out.flatten(1)

    def _context(self, kv: torch.Tensor, span: Span) -> torch.Tensor:
        """K and V of a span's tokens: [2, kv_heads, tokens, head_dim]."""
        first = span.first_block * self._pool.page_size
        return kv[first : first + span.num_context].permute(1, 2, 0, 3)

    def _attend_span(
        self,
        queries: torch.Tensor,
        context: torch.Tensor,
        mask: torch.Tensor | None,
        out: torch.Tensor,
    ) -> None:
        """``queries`` and ``out``: [rows, heads, head_dim]. Without a mask and with several rows the
        context is these rows themselves."""
        k, v = context[:1], context[1:]
        if queries.shape[0] == 1:
            # The heads of a group share K and V: they go in as so many queries of one head.
            folded = queries.unflatten(1, (self._config.num_key_value_heads, -1))
            out.view(folded.shape).copy_(scaled_dot_product_attention(folded, k, v))
            return
        attended = scaled_dot_product_attention(
            queries.transpose(0, 1).unsqueeze(0),
            k,
            v,
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=True,
        )
        out.copy_(attended[0].transpose(0, 1))

    def _mix(
        self, layer: LayerWeights, hidden: torch.Tensor, attended: torch.Tensor
    ) -> torch.Tensor:
        """Output projection and MLP, each added to what came in."""
        hidden = torch.addmm(hidden, attended, layer.o.t())
        gate_up = linear(self._norm(hidden, layer.post_norm), layer.gate_up)
        gate, up = gate_up.chunk(2, dim=1)
        return torch.addmm(hidden, silu(gate, inplace=True).mul_(up), layer.down.t())

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden, weight.shape, weight, self._config.rms_norm_eps)


def _mask(span: Span, like: torch.Tensor) -> torch.Tensor | None:
    """Additive mask [rows, context] of rows that follow cached tokens; None where none is needed."""
    if span.num_rows == 1 or span.num_cached == 0:
        return None
    mask = like.new_full((span.num_rows, span.num_context), float("-inf"))
    return mask.triu_(span.num_cached + 1)
