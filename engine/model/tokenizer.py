"""Text to token ids and back. Free of torch, since the HTTP process uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.model.config import TINY_MODEL

NUM_BYTES = 256


class Tokenizer(Protocol):
    """A model's tokenizer."""

    @property
    def eos_token_id(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of output tokens; special tokens leave nothing, broken UTF-8 becomes U+FFFD."""
        ...


class ByteTokenizer:
    """One token a byte of UTF-8, and three special ones behind them. Prompts get no bos."""

    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text: str) -> list[int]:
        # A JSON string may hold a lone surrogate, which UTF-8 cannot: it becomes "?".
        return list(text.encode("utf-8", errors="replace"))

    def decode(self, token_ids: Sequence[int]) -> str:
        data = bytes(token for token in token_ids if token < NUM_BYTES)
        return data.decode("utf-8", errors="replace")


def load_tokenizer(model_path: str) -> Tokenizer:
    """The tokenizer of ``tiny`` or of a Hugging Face directory. Raises `ModelError`."""
    if model_path == TINY_MODEL:
        return ByteTokenizer()
    from engine.model.hf_tokenizer import load_hf_tokenizer

    return load_hf_tokenizer(model_path)
