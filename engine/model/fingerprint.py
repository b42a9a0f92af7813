"""A digest of all that two workers must share before KV pages may move between them."""

from __future__ import annotations

import hashlib

import msgspec

from engine.model.config import ModelConfig

PAGE_FORMAT = "layer,token,kv,head,pair-interleaved-1"
"""What `KvPool` and `interleave_halves` make of a page's bytes; to be changed with them."""


class _Identity(msgspec.Struct, frozen=True, kw_only=True):
    config: ModelConfig
    page_size: int
    dtype: str
    seed: int
    checkpoint: str
    page_format: str


def fingerprint(config: ModelConfig, page_size: int, dtype: str, seed: int, checkpoint: str) -> str:
    """Hex digest, the same in every process. ``checkpoint``: digest of loaded weights, or empty."""
    identity = _Identity(
        config=config,
        page_size=page_size,
        dtype=dtype,
        # Loaded weights do not depend on the seed.
        seed=0 if checkpoint else seed,
        checkpoint=checkpoint,
        page_format=PAGE_FORMAT,
    )
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()
