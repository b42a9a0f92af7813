"""Weights of a local Hugging Face directory: *.safetensors of a plain Llama."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from engine.model.config import ModelConfig
from engine.model.errors import MissingPackageError, ModelPathError, UnsupportedModelError
from engine.model.hf_config import read_config
from engine.model.weights import TensorSource


class TensorFile(Protocol):
    """An open safetensors file."""

    def keys(self) -> list[str]: ...

    def get_tensor(self, name: str) -> torch.Tensor: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on disk. ``digest``: SHA-256 of its weight files."""

    config: ModelConfig
    source: TensorSource
    digest: str


def load_checkpoint(model_path: str) -> Checkpoint:
    """Open a directory; tensors are read when asked for. Raises ModelError."""
    config = read_config(model_path)
    files = sorted(Path(model_path).glob("*.safetensors"))
    if not files:
        raise ModelPathError(
            model_path,
            "no *.safetensors in it; save the model anew with transformers' save_pretrained",
        )
    return Checkpoint(config, _file_source(model_path, files), _digest(files))


def _file_source(model_path: str, files: Sequence[Path]) -> TensorSource:
    """Tensors by name out of all files together."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingPackageError(
            model_path, "a directory needs the package safetensors: pip install safetensors"
        ) from error

    opened: list[TensorFile] = []
    for path in files:
        try:
            opened.append(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise ModelPathError(model_path, f"{path}: {error}; copy it again") from error
    file_of = {name: file for file in opened for name in file.keys()}  # noqa: SIM118

    def get(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        if name not in file_of:
            raise UnsupportedModelError(
                model_path, f"no tensor {name}; choose a plain Llama model with all its files"
            )
        tensor = file_of[name].get_tensor(name)
        if tensor.shape != shape:
            raise UnsupportedModelError(
                model_path,
                f"{name} is {list(tensor.shape)}, config.json says {list(shape)}; "
                "the files are of different models, copy them again",
            )
        return tensor

    return get


def _digest(files: Sequence[Path]) -> str:
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256("".join(digests).encode()).hexdigest()
