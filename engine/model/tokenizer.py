"""Tokenizers. The tiny model reads bytes, so nothing is downloaded. No torch in here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.model.errors import ModelPathError

TINY_MODEL = "tiny"


class Tokenizer(Protocol):
    """Text to token ids and back."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_id(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...


class ByteTokenizer:
    """One token a UTF-8 byte; 256 begin, 257 end, 258 padding."""

    vocab_size = 259
    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        """Bytes that are no UTF-8 come out as U+FFFD; special tokens as nothing."""
        return bytes(token for token in token_ids if token < 256).decode(errors="replace")


def check_model_path(model_path: str) -> None:
    """Raises ModelPathError for a model that is not there."""
    if model_path != TINY_MODEL:
        raise ModelPathError(
            f"--model-path {model_path!r} is not known: this version runs the seeded model only; "
            f"use --model-path {TINY_MODEL}"
        )


def load_tokenizer(model_path: str) -> Tokenizer:
    """The tokenizer of ``--model-path``. Raises ModelPathError."""
    check_model_path(model_path)
    return ByteTokenizer()
