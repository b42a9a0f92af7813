"""Errors of the model.

ModelError
├── ModelPathError         no model at that path, or a file of it cannot be read
├── UnsupportedModelError  a model that this engine does not know
├── MissingPackageError    an optional package is not installed
├── DtypeError             a number format that is no choice
├── DeviceError            a device that is not there
├── PageTableError         a batch names pages that do not exist or do not cover its tokens
└── PageDataError          KV bytes of the wrong length
"""

from __future__ import annotations


class ModelError(Exception):
    """Root of the model's errors. Each message says what to do next."""


class ModelPathError(ModelError):
    """No model at that path, or a file of it cannot be read."""


class UnsupportedModelError(ModelError):
    """The directory holds a model that this engine does not know."""


class MissingPackageError(ModelError):
    """A model directory needs an optional package that is not installed."""


class DtypeError(ModelError):
    """The number format is no choice."""


class DeviceError(ModelError):
    """The device is not there."""


class PageTableError(ModelError):
    """A batch names pages that do not exist, or too few for its tokens."""


class PageDataError(ModelError):
    """KV bytes whose length is not that of the pages they are for."""
