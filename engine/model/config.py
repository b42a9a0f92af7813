"""Shape of a model."""

from __future__ import annotations

import msgspec


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Llama's shape, under Hugging Face's names."""

    num_hidden_layers: int = 4
    hidden_size: int = 256
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    intermediate_size: int = 704
    vocab_size: int = 259
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    qk_gain: float = 3.0
    """Factor on Q and K of a seeded model: with less, tokens hardly depend on the cache."""

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_attention_heads // self.num_key_value_heads


TINY = ModelConfig()
"""The default: 3.1 M parameters, made from a seed, nothing to download."""
