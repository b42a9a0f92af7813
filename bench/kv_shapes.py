"""Whose KV pages are carried: shapes, frames and pools."""

from __future__ import annotations

import msgspec
import torch

from engine.model.config import TINY, ModelConfig
from engine.model.kv_pool import KvPool
from engine.model.torch_threads import limit_torch_threads

PAGE_SIZE = 16
CHUNK_PAGES = 16
NUM_TOKENS = 2048
NUM_FRAMES = NUM_TOKENS // (PAGE_SIZE * CHUNK_PAGES)

SMOLLM2 = msgspec.structs.replace(
    TINY, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64
)
"""KV of SmolLM2-135M: 30 layers, 3 KV heads of 64. No weights are needed to move pages."""
SHAPES = {"tiny": TINY, "smollm2": SMOLLM2}


def make_pool(config: ModelConfig) -> KvPool:
    """Pages of ``NUM_TOKENS`` tokens in bf16."""
    limit_torch_threads()
    torch.set_num_threads(1)
    return KvPool(config, NUM_TOKENS // PAGE_SIZE, PAGE_SIZE, torch.bfloat16, torch.device("cpu"))


def frame_pages() -> list[tuple[int, ...]]:
    """The pages of each frame of one request, a prefill chunk each."""
    firsts = range(0, NUM_FRAMES * CHUNK_PAGES, CHUNK_PAGES)
    return [tuple(range(first, first + CHUNK_PAGES)) for first in firsts]
