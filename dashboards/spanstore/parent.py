"""End with the parent: a runner that is killed must leave no store behind."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
PARENT_DIED = signal.SIGUSR1
"""Not SIGTERM: the kernel also sends it when only the parent's *thread* that started us ended."""


class ParentWatch:
    """Remembers the parent. One that was init from the start (a daemon) is not watched."""

    def __init__(self, parent_pid: int | None = None) -> None:
        self._parent = os.getppid() if parent_pid is None else parent_pid
        self._watched = parent_pid is not None or self._parent > 1

    def arm(self) -> None:
        """Ask the kernel for `PARENT_DIED`; polling `gone` remains as the second way."""
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(PARENT_DIED))

    def gone(self) -> bool:
        return self._watched and os.getppid() != self._parent
