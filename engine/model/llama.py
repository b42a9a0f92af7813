"""Llama's forward over paged KV, in eager torch.

Linear layers run over all tokens of the batch at once, attention over one request at a time: a request's
tokens then do not depend on its neighbours (DESIGN 2.5). At least 16 rows go into each matmul, since the
BLAS takes other kernels below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from engine.model.config import ModelConfig
from engine.model.kv_pool import KvPool
from engine.model.weights import LayerWeights, Weights

MIN_ROWS = 16


@dataclass(slots=True, frozen=True)
class Span:
    """One request's rows in a batch: ``first``..``first + count``, at ``start`` of its sequence."""

    first: int
    count: int
    start: int
    pages: torch.Tensor
    mask: torch.Tensor | None
    """Additive, [group * count, start + count], for chunks of more than one token."""


class Llama:
    """Weights, RoPE tables, and the forward."""

    def __init__(self, config: ModelConfig, weights: Weights, max_position: int) -> None:
        self._config = config
        self._weights = weights
        half = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        angles = torch.outer(torch.arange(max_position).float(), config.rope_theta**-half)
        angles = torch.cat([angles, angles], dim=-1)
        self._cos = angles.cos().to(weights.embedding.dtype)
        self._sin = angles.sin().to(weights.embedding.dtype)

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, spans: Sequence[Span], kv: KvPool
    ) -> torch.Tensor:
        """token_ids, positions: [rows], rows >= 16, padded at the end. Returns [rows, hidden]."""
        hidden = F.embedding(token_ids, self._weights.embedding)
        cos, sin = self._cos[positions], self._sin[positions]
        pages, offsets = _places(spans, kv.page_size)
        for index, layer in enumerate(self._weights.layers):
            query, kv_new = self._project(layer, hidden, cos, sin)
            num_real = len(pages)
            kv.write(index, pages, offsets, kv_new[:, :, :num_real])
            mixed = torch.zeros_like(hidden)
            for span in spans:
                rows = slice(span.first, span.first + span.count)
                mixed[rows] = self._attend(query[:, rows], span, kv, index)
            hidden = hidden + F.linear(mixed, layer.out)
            hidden = hidden + self._mlp(layer, hidden)
        return self._norm(hidden, self._weights.final_norm)

    def logits(self, rows: torch.Tensor) -> torch.Tensor:
        """rows: [n, hidden] -> [n, vocab] in fp32."""
        count = len(rows)
        padded = F.pad(rows, (0, 0, 0, max(0, MIN_ROWS - count)))
        return F.linear(padded, self._weights.lm_head)[:count].float()

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self._config.rms_norm_eps)

    def _project(
        self, layer: LayerWeights, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Query [heads, rows, dim] and KV [2, kv_heads, rows, dim], rotated."""
        config = self._config
        packed = F.linear(self._norm(hidden, layer.input_norm), layer.qkv)
        heads = packed.view(len(hidden), -1, config.head_dim).transpose(0, 1)
        num_rotated = config.num_attention_heads + config.num_key_value_heads
        rotated = _rotate(heads[:num_rotated], cos, sin)
        key = rotated[config.num_attention_heads :]
        return rotated[: config.num_attention_heads], torch.stack([key, heads[num_rotated:]])

    def _attend(self, query: torch.Tensor, span: Span, kv: KvPool, layer: int) -> torch.Tensor:
        """query: [heads, count, dim] -> [count, hidden]."""
        config = self._config
        key, value = kv.read(layer, span.pages, span.start + span.count)
        # The GQA group is folded into the query length, so that K and V are never copied per head.
        rows = config.group_size * span.count
        grouped = query.reshape(config.num_key_value_heads, rows, config.head_dim)
        out = F.scaled_dot_product_attention(
            grouped[None], key[None], value[None], attn_mask=span.mask
        )
        by_head = out.reshape(config.num_attention_heads, span.count, config.head_dim)
        return by_head.transpose(0, 1).reshape(span.count, config.hidden_size)

    def _mlp(self, layer: LayerWeights, hidden: torch.Tensor) -> torch.Tensor:
        packed = F.linear(self._norm(hidden, layer.post_norm), layer.gate_up)
        gate, up = packed.chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, layer.down)


def _rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """RoPE, rotate-half. heads: [heads, rows, dim]."""
    left, right = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat([-right, left], dim=-1) * sin


def _places(spans: Sequence[Span], page_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Page and offset of every real row."""
    pages, offsets = [], []
    for span in spans:
        at = torch.arange(span.start, span.start + span.count)
        pages.append(span.pages[at // page_size])
        offsets.append(at % page_size)
    return torch.cat(pages), torch.cat(offsets)
