"""Everything that can go wrong in `dashboards`, as one tree.

DashboardError                 exit 1 unless a subclass says otherwise
├── UsageError                 exit 2: the command line names something that is not there
│   ├── RunNotFound            RUN is no directory, or no run directory
│   ├── NoSpans                the run has no (readable) spans.sqlite
│   └── BadWhere               --where is no key=value, or no span has that key
├── NothingMatched             exit 1: the filter is sound and keeps nothing
├── OutputUnwritable           exit 1: a result cannot be written where it should go
├── StoreError                 the span store cannot start
│   ├── DatabaseUnwritable     --db cannot be created or is no database
│   └── PortUnavailable        --host/--port cannot be bound
└── BodyRefused                one request body; answered, never fatal (``status``: HTTP status)
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class DashboardError(Exception):
    """Base of the tree; ``exit_code`` is what the command returns."""

    exit_code: ClassVar[int] = 1


class UsageError(DashboardError):
    """The command line cannot be carried out as it stands."""

    exit_code: ClassVar[int] = 2


class RunNotFound(UsageError):
    def __init__(self, run: Path, why: str) -> None:
        super().__init__(
            f"RUN {run}: {why}; make one with `severance run SCENARIO --out {run}`, "
            "or name the directory that an earlier run wrote"
        )


class NoSpans(UsageError):
    def __init__(self, run: Path, why: str) -> None:
        super().__init__(
            f"RUN {run}: {why}; run the scenario again with the span store on (the default)"
        )


class BadWhere(UsageError):
    """A ``--where`` that cannot be meant."""


class NothingMatched(DashboardError):
    """A sound filter that keeps no trace."""


class OutputUnwritable(DashboardError):
    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"cannot write {path}: {error.strerror}; free the place or give write permission"
        )


class StoreError(DashboardError):
    """The span store cannot start."""


class DatabaseUnwritable(StoreError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"--db {path}: {why}; name a file in a writable directory with free space")


class PortUnavailable(StoreError):
    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"--port {port}: cannot listen on {host}:{port}: {why}; use --port 0")


class BodyRefused(DashboardError):
    """A request body that the store does not take; the sender gets ``status`` and the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
