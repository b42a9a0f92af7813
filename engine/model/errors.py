"""Errors of the model.

ModelError
├── ModelPathError             --model-path names nothing that can be loaded
│   ├── UnsupportedModelError  a model that this engine does not know
│   └── MissingPackageError    an optional package is not installed
├── DtypeError                 a number format that is no choice
├── DeviceError                a device that is not there
├── PageTableError             a batch names pages that do not exist or do not cover its tokens
└── PageDataError              KV bytes of the wrong length
"""

from __future__ import annotations


class ModelError(Exception):
    """Root of the model's errors. Each message says what to do next."""


class ModelPathError(ModelError):
    """No model at that path, or it cannot be loaded."""

    def __init__(self, model_path: str, problem: str) -> None:
        super().__init__(f"--model-path {model_path!r}: {problem}")
        self.model_path = model_path


class UnsupportedModelError(ModelPathError):
    """The directory holds a model that this engine does not know."""


class MissingPackageError(ModelPathError):
    """A model directory needs an optional package that is not installed."""


class DtypeError(ModelError):
    """The number format is no choice."""


class DeviceError(ModelError):
    """The device is not there."""


class PageTableError(ModelError):
    """A batch names pages that do not exist, or too few for its tokens."""


class PageDataError(ModelError):
    """KV bytes whose length is not that of the pages they are for."""
