"""The same Llama once more, written to be plain: no cache, no pages, no packing, double precision."""

from __future__ import annotations

import torch

from engine.model.config import ModelConfig
from engine.model.weights import TensorSource


class Reference:
    def __init__(self, config: ModelConfig, source: TensorSource) -> None:
        self._c = config
        self._source = source
        self._cache: dict[str, torch.Tensor] = {}

    def _w(self, name: str, *shape: int) -> torch.Tensor:
        if name not in self._cache:
            self._cache[name] = self._source(f"{name}.weight", shape).double()
        return self._cache[name]

    def logprobs(self, token_ids: list[int]) -> torch.Tensor:
        """Of the next token after each position: [tokens, vocab]."""
        c = self._c
        x = self._w("model.embed_tokens", c.vocab_size, c.hidden_size)[torch.tensor(token_ids)]
        for i in range(c.num_hidden_layers):
            x = self._layer(f"model.layers.{i}", x)
        x = self._norm("model.norm", x)
        return torch.log_softmax(x @ self._w("lm_head", c.vocab_size, c.hidden_size).T, -1)

    def _layer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        c, attn, mlp = self._c, f"{name}.self_attn", f"{name}.mlp"
        q_size, kv_size = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
        h = self._norm(f"{name}.input_layernorm", x)
        q = self._turn(self._heads(h @ self._w(f"{attn}.q_proj", q_size, c.hidden_size).T))
        k = self._turn(self._heads(h @ self._w(f"{attn}.k_proj", kv_size, c.hidden_size).T))
        v = self._heads(h @ self._w(f"{attn}.v_proj", kv_size, c.hidden_size).T)
        group = c.num_attention_heads // c.num_key_value_heads
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        scores = q @ k.transpose(1, 2) / c.head_dim**0.5
        future = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        mixed = torch.softmax(scores.masked_fill(future, float("-inf")), -1) @ v
        flat = mixed.transpose(0, 1).flatten(1)
        x = x + flat @ self._w(f"{attn}.o_proj", c.hidden_size, q_size).T
        h = self._norm(f"{name}.post_attention_layernorm", x)
        gate = h @ self._w(f"{mlp}.gate_proj", c.intermediate_size, c.hidden_size).T
        up = h @ self._w(f"{mlp}.up_proj", c.intermediate_size, c.hidden_size).T
        down = self._w(f"{mlp}.down_proj", c.hidden_size, c.intermediate_size)
        return x + (gate * torch.sigmoid(gate) * up) @ down.T

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(x), -1, self._c.head_dim).transpose(0, 1)

    def _turn(self, x: torch.Tensor) -> torch.Tensor:
        """Rotate-half, as in Hugging Face's Llama."""
        half = self._c.head_dim // 2
        speeds = self._c.rope_theta ** (-torch.arange(half).double() / half)
        angles = torch.arange(x.shape[1]).double()[:, None] * torch.cat((speeds, speeds))
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * angles.cos() + turned * angles.sin()

    def _norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        scale = (x.square().mean(-1, keepdim=True) + self._c.rms_norm_eps).rsqrt()
        return x * scale * self._w(name, self._c.hidden_size)
