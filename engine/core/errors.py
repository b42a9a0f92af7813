"""Errors of the core.

CoreError
├── ConfigError        a setting that cannot work
├── OutOfResource      allocate() without can_allocate()
└── InvariantError     the core contradicts itself (a bug; never caused by input)
"""

from __future__ import annotations


class CoreError(Exception):
    """Root of the core's errors."""


class ConfigError(CoreError):
    """A setting that cannot work; the message names it and says what to change."""


class OutOfResource(CoreError):
    """Asked for more than is free; the caller skipped ``can_allocate``."""


class InvariantError(CoreError):
    """The core contradicts itself."""
