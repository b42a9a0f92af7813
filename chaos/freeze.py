"""Stops and continues processes (SIGSTOP, SIGCONT), and knows whether it happened."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from chaos import proc
from chaos.errors import ProcessFailed
from chaos.proc import Identity

_STOPPED = ("T", "t")
_WITHIN_S = 1.0


def freeze(processes: Sequence[Identity]) -> None:
    """Returns when all are stopped. Raises `ProcessFailed` if one is not, or if there is none."""
    if not processes:
        raise ProcessFailed("there is no process to stop")
    _signal(processes, signal.SIGSTOP)
    deadline = time.monotonic() + _WITHIN_S
    while (running := [who for who in processes if not is_stopped(who)]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.002)
    if running:
        raise ProcessFailed(f"pid {running[0].pid} did not stop within {_WITHIN_S:g} s")


def thaw(processes: Sequence[Identity]) -> None:
    """No-op for those that run or are gone."""
    _signal(processes, signal.SIGCONT)


def is_stopped(process: Identity) -> bool:
    stat = proc.read_stat(process.pid)
    return stat is not None and stat.state in _STOPPED and proc.alive(process)


def still_stopped(processes: Sequence[Identity]) -> list[Identity]:
    return [who for who in processes if is_stopped(who)]


def _signal(processes: Sequence[Identity], number: signal.Signals) -> None:
    for who in processes:
        proc.send(who, number)
