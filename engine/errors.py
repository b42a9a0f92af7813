"""Errors of the engine's front half (command line, HTTP process).

EngineError
├── UsageError         a flag cannot work: names the flag and the next step (exit 2)
├── StartupError       the worker could not start (exit 1)
├── UnavailableError   the scheduler cannot take or answer this now (HTTP 503)
└── RequestError       bad input in a request: names the field (HTTP 400)
    ├── InputTooLong   prompt and output do not fit the context (HTTP 400, reason input_too_long)
    └── BodyTooLarge   the body is over the limit (HTTP 413)
"""

from __future__ import annotations


class EngineError(Exception):
    """Root of the engine's errors."""


class UsageError(EngineError):
    """A flag that cannot work."""

    def __init__(self, flag: str, problem: str) -> None:
        super().__init__(f"{flag}: {problem}")
        self.flag = flag


class StartupError(EngineError):
    """The worker could not start; the message says what failed."""


class UnavailableError(EngineError):
    """The scheduler is loading, gone, full or silent."""


class RequestError(EngineError):
    """Bad input of one request. ``field`` is a path such as ``sampling_params.temperature``."""

    status = 400

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field


class InputTooLong(RequestError):
    """The prompt and the wanted output do not fit the context."""

    def __init__(self, field: str, problem: str, limit: int) -> None:
        super().__init__(field, problem)
        self.limit = limit


class BodyTooLarge(RequestError):
    """The body is over the limit."""

    status = 413
