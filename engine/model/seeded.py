"""Seeded random weights, the same on every machine."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from engine.model.weights import TensorSource

QK_GAIN = 3.0
"""Q and K are this much larger than fan-in. It makes attention sharp, so that tokens depend on the
whole cache; with the usual init every prompt gives one repeated token and wrong KV goes unnoticed."""


def seeded_source(seed: int) -> TensorSource:
    """Random tensors by name, float32. Numpy's Philox, since torch's normal differs between CPUs."""

    def get(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if len(shape) == 1:
            return torch.ones(shape)
        key = (seed & 0xFFFF_FFFF_FFFF_FFFF, zlib.crc32(name.encode()))
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
        values = rng.standard_normal(shape, dtype=np.float32)
        return torch.from_numpy(values).mul_(_std(name, fan_in=shape[1]))

    return get


def _std(name: str, fan_in: int) -> float:
    if "embed_tokens" in name:
        return 1.0
    gain = QK_GAIN if "q_proj" in name or "k_proj" in name else 1.0
    return float(gain / fan_in**0.5)
