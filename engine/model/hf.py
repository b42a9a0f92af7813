"""A local Hugging Face directory: config.json and *.safetensors of a plain Llama."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from engine.model.config import ModelConfig
from engine.model.errors import MissingPackageError, ModelPathError, UnsupportedModelError
from engine.model.weights import TensorSource

ARCHITECTURE = "LlamaForCausalLM"


class HfConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of config.json; the names are Hugging Face's."""

    architectures: tuple[str, ...] = ()
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int
    vocab_size: int
    eos_token_id: int | tuple[int, ...]
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, object] | None = None
    rope_parameters: dict[str, object] | None = None
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
