"""One run at a time against a deployment that several people can reach from this machine."""

from __future__ import annotations

import fcntl
import hashlib
import os

from chaos.errors import UsageError
from chaos.registry import state_directory


class Lease:
    """Ends with the process that took it, however that ends."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._handle: int | None = None

    def take(self) -> None:
        """Raises `UsageError` if another run has it."""
        directory = state_directory() / "leases"
        directory.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(self._target.encode()).hexdigest()[:16]
        handle = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise UsageError(
                f"another run is at work on {self._target}; wait for its end"
            ) from error
        self._handle = handle

    def give_back(self) -> None:
        """No-op if it was not taken."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
