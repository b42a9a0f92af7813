"""`Llama`: the decoder in plain eager torch (Touvron et al. 2023), over a paged KV cache.

A row is one token of the batch. Products run over all rows at once, attention by request. With enough
rows (`find_stable_rows`) no row's bits then depend on the rest of the batch.
"""

from __future__ import annotations

import torch
from torch.nn.functional import embedding, linear, rms_norm, silu

from engine.core.batch import Cancelled, ShouldStop, never
from engine.model.attention import attend
from engine.model.batch_plan import BatchPlan
from engine.model.config import ModelConfig
from engine.model.kv_pool import KvPool
from engine.model.rope import Rope
from engine.model.weights import LayerWeights, Weights


class Llama:
    """One model over one KV pool."""

    def __init__(self, config: ModelConfig, weights: Weights, rope: Rope, pool: KvPool) -> None:
        self._config = config
        self._weights = weights
        self._rope = rope
        self._pool = pool

    def forward(
        self, plan: BatchPlan, should_stop: ShouldStop = never
    ) -> torch.Tensor | Cancelled | None:
        """Write the rows' K and V; logits [num_sampled, vocab], or None if no row is sampled.

        Asks ``should_stop`` before the attention and before the MLP of each layer. A forward that stops
        has written K and V of some layers, at rows that the next one writes anew before it reads them.
        """
        if plan.fresh_pages:
            self._pool.clear(plan.fresh_pages)
        hidden = embedding(plan.input_ids, self._weights.embed)
        turns = self._rope.at(plan.positions)
        attention = plan.attention
        for index, layer in enumerate(self._weights.layers):
            if should_stop():
                return Cancelled(num_layers_run=index)
            queries, kv = self._project(layer, hidden, turns)
            self._pool.write(plan.kv_rows[index], kv[: plan.num_rows])
            if index == self._config.num_hidden_layers - 1:
                # All KV is written; only the sampled rows have anything left to compute.
                if plan.num_sampled == 0:
                    return None
                if plan.last_attention is not attention:
                    hidden, queries = hidden[plan.sampled], queries[plan.sampled]
                    attention = plan.last_attention
            attended = attend(index, queries, attention, self._pool)
            if should_stop():
                return Cancelled(num_layers_run=index)
            hidden = self._mix(layer, hidden, attended)
        hidden = self._norm(hidden, self._weights.norm)
        return linear(hidden, self._weights.lm_head)[: plan.num_sampled]

    def _project(
        self, layer: LayerWeights, hidden: torch.Tensor, turns: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Turned Q [rows, heads, head_dim], and K with V [rows, 2 * kv_size]."""
        config = self._config
        qkv = linear(self._norm(hidden, layer.input_norm), layer.qkv)
        turned = qkv[:, : config.q_size + config.kv_size]
        by_head = (len(qkv), -1, config.head_dim)
        self._rope.rotate_(turned.view(by_head), turns)
        return qkv[:, : config.q_size].view(by_head), qkv[:, config.q_size :]

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
