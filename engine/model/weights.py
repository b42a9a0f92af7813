"""The weights of a Llama, packed for few and large products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.model.config import ModelConfig

TensorSource = Callable[[str, tuple[int, ...]], torch.Tensor]
"""Gives the tensor of a Hugging Face name, in the shape asked for."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer; matrices are [out, in].

    ``qkv``: rows of all query heads, key heads, value heads; in query and key heads the rows are
    reordered by `interleave_halves`. ``gate_up``: gate rows, then up rows.
    """

    input_norm: torch.Tensor
    qkv: torch.Tensor
    o: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of one model, of one dtype and on one device."""

    embed: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    lm_head: torch.Tensor


def build_weights(
    config: ModelConfig, source: TensorSource, dtype: torch.dtype, device: torch.device
) -> Weights:
    """Read every tensor once from ``source`` and pack it."""

    def get(name: str, *shape: int) -> torch.Tensor:
        return source(name, shape).to(device=device, dtype=dtype)

    vocab, hidden = config.vocab_size, config.hidden_size
    embed = get("model.embed_tokens.weight", vocab, hidden)
    return Weights(
        embed=embed,
        layers=tuple(_layer(config, i, get) for i in range(config.num_hidden_layers)),
        norm=get("model.norm.weight", hidden),
        lm_head=embed if config.tie_word_embeddings else get("lm_head.weight", vocab, hidden),
    )


def _layer(config: ModelConfig, index: int, get: Callable[..., torch.Tensor]) -> LayerWeights:
    def layer(name: str, *shape: int) -> torch.Tensor:
        return get(f"model.layers.{index}.{name}.weight", *shape)

    hidden, inner = config.hidden_size, config.intermediate_size
    q = layer("self_attn.q_proj", config.q_size, hidden)
    k = layer("self_attn.k_proj", config.kv_size, hidden)
    v = layer("self_attn.v_proj", config.kv_size, hidden)
    head_dim = config.head_dim
    return LayerWeights(
        input_norm=layer("input_layernorm", hidden),
        qkv=torch.cat((interleave_halves(q, head_dim), interleave_halves(k, head_dim), v)),
        o=layer("self_attn.o_proj", hidden, config.q_size),
        post_norm=layer("post_attention_layernorm", hidden),
        gate_up=torch.cat(
            (layer("mlp.gate_proj", inner, hidden), layer("mlp.up_proj", inner, hidden))
        ),
        down=layer("mlp.down_proj", hidden, inner),
    )


def interleave_halves(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Reorder a Q or K matrix [heads * head_dim, in]: row i of a head next to row i + head_dim / 2.

    RoPE turns exactly these pairs (rotate-half). Side by side they are one complex number, and the
    turn is one product. Scores stay the same, as Q and K are reordered alike.
    """
    halves = rows.view(-1, 2, head_dim // 2, rows.shape[1])
    return halves.transpose(1, 2).reshape(rows.shape)
