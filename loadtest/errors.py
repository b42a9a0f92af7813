"""Every error and signal of the load driver.

LoadError
├── UsageError           an option is wrong; names the flag and what to do (exit code 2)
├── PromptError          no text on this machine to cut prompts from
├── HistoryError         the history file cannot be written
├── TraceFileError       a workload trace cannot be read
└── ProtocolError        the answer is not HTTP
Signal                   (BaseException: no ``except Exception`` on the way may swallow it)
├── ClientAct            the plan says: close the connection now
├── RequestTimedOut      ``--request-timeout`` is over: give up, the request counts as hung
└── Halted               the driver was told to stop (SIGTERM, SIGINT)
"""

from __future__ import annotations

from pathlib import Path


class LoadError(Exception):
    """Base of all errors of this package."""


class UsageError(LoadError):
    """``flag`` is unusable; ``advice`` says why and what to do."""

    def __init__(self, flag: str, advice: str) -> None:
        super().__init__(f"{flag}: {advice}")
        self.flag = flag


class PromptError(LoadError):
    """The machine has no text to cut prompts from."""


class HistoryError(LoadError):
    """A record could not be written whole; the history would lie from here on."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"cannot write {path}: {cause}. Free space or choose another --out.")
        self.path = path


class TraceFileError(LoadError):
    """``line`` (from 1) of a workload trace is not what its format says."""

    def __init__(self, path: Path, line: int, cause: str) -> None:
        super().__init__(f"{path}, line {line}: {cause}")
        self.path = path
        self.line = line


class ProtocolError(LoadError):
    """Bytes arrived that are no HTTP/1.1 answer."""


class Signal(BaseException):
    """Raised into the greenlet of a request by a timer or by the driver."""


class ClientAct(Signal):
    """The planned disconnect or deadline is due."""


class RequestTimedOut(Signal):
    """The request has been open for longer than ``--request-timeout``."""


class Halted(Signal):
    """The driver stops before the request has ended."""
