"""`ModelConfig`: the shape of a Llama."""

from __future__ import annotations

import msgspec

TINY_MODEL = "tiny"
"""The model path that means the seeded model below."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Shape of a Llama decoder, in Hugging Face's names.

    ``head_dim`` is even, and ``num_attention_heads`` a multiple of ``num_key_value_heads``.
    """

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    eos_token_id: int
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = False

    @property
    def q_size(self) -> int:
        """Width of all query heads."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads; the value heads have the same."""
        return self.num_key_value_heads * self.head_dim


TINY = ModelConfig(
    num_hidden_layers=4,
    hidden_size=256,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    intermediate_size=704,
    vocab_size=259,
    eos_token_id=257,
)
"""The default model: seeded weights, byte tokenizer, nothing to download."""
