"""Weights of the seeded model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from engine.model.config import ModelConfig


@dataclass(slots=True, frozen=True)
class LayerWeights:
    """One block; Q, K, V and gate, up are packed row-wise, so that each is one matmul."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(slots=True, frozen=True)
class Weights:
    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    lm_head: torch.Tensor


class _Init:
    """Fan-in normal weights from one seed, drawn in fp32 in a fixed order."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._dtype = dtype

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        drawn = torch.randn(rows, columns, generator=self._generator)
        return drawn.mul(gain / math.sqrt(columns))

    def cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._dtype).contiguous()


def seeded_weights(config: ModelConfig, seed: int, dtype: torch.dtype) -> Weights:
    """Fan-in init, Q and K times `qk_gain`: the answer then depends on every page of the cache."""
    init = _Init(seed, dtype)
    hidden = config.hidden_size
    kv_width = config.num_key_value_heads * config.head_dim
    embedding = torch.randn(config.vocab_size, hidden, generator=init._generator)
    layers = []
    for _ in range(config.num_hidden_layers):
        query = init.matrix(hidden, hidden, config.qk_gain)
        key = init.matrix(kv_width, hidden, config.qk_gain)
        value = init.matrix(kv_width, hidden)
        layers.append(
            LayerWeights(
                input_norm=init.cast(torch.ones(hidden)),
                qkv=init.cast(torch.cat([query, key, value])),
                out=init.cast(init.matrix(hidden, hidden)),
                post_norm=init.cast(torch.ones(hidden)),
                gate_up=init.cast(init.matrix(2 * config.intermediate_size, hidden)),
                down=init.cast(init.matrix(hidden, config.intermediate_size)),
            )
        )
    return Weights(
        embedding=init.cast(embedding),
        layers=tuple(layers),
        final_norm=init.cast(torch.ones(hidden)),
        lm_head=init.cast(init.matrix(config.vocab_size, hidden)),
    )
