"""The tokenizer of a local Hugging Face directory: tokenizer.json, read by ``tokenizers``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.model.errors import MissingPackageError, ModelPathError
from engine.model.hf_config import read_config

if TYPE_CHECKING:
    import tokenizers


class HfTokenizer:
    """`engine.model.tokenizer.Tokenizer` over a Hugging Face tokenizer."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, eos_token_id: int, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = eos_token_id
        self.vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        # The Rust side takes no lone surrogates: they become "?".
        clean = text.encode("utf-8", errors="replace").decode()
        return list(self._tokenizer.encode(clean).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))


def load_hf_tokenizer(model_path: str) -> HfTokenizer:
    """Raises ModelError."""
    config = read_config(model_path)
    try:
        import tokenizers
    except ImportError as error:
        raise MissingPackageError(
            model_path, "a directory needs the package tokenizers: pip install tokenizers"
        ) from error
    path = Path(model_path) / "tokenizer.json"
    if not path.is_file():
        raise ModelPathError(
            model_path,
            "no tokenizer.json in it; save it with transformers' AutoTokenizer.save_pretrained",
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare Exception
        raise ModelPathError(model_path, f"{path}: {error}; copy it again") from error
    return HfTokenizer(tokenizer, config.eos_token_id, config.vocab_size)
