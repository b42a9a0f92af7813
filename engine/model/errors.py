"""Errors of the model.

ModelError
└── ModelPathError      --model-path names nothing that can be loaded
"""

from __future__ import annotations


class ModelError(Exception):
    """Root of the model's errors."""


class ModelPathError(ModelError):
    """No such model; the message says what can be given."""
