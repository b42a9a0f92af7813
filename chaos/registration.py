"""What makes a process findable for `severance heal` while it may leave faults behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos import proc
from chaos.proc import Identity
from chaos.records import ProcessRecord
from chaos.registry import ActiveRun, register, unregister
from chaos.residue import RUNNER


@contextmanager
def registered(run_id: str, directory: Path) -> Iterator[None]:
    """Inside, this process counts as the runner of ``directory``."""
    register(ActiveRun(run_id=run_id, directory=str(directory.resolve()), runner=own_identity()))
    try:
        yield
    finally:
        unregister(run_id)


def own_record(ended: bool) -> ProcessRecord:
    own = own_identity()
    return ProcessRecord(
        name=RUNNER,
        pid=own.pid,
        started_ticks=own.started_ticks,
        argv=tuple(sys.argv),
        ports=(),
        ended=ended,
    )


def own_identity() -> Identity:
    stat = proc.read_stat(os.getpid())
    assert stat is not None, "this process has no /proc entry"
    return Identity(pid=stat.pid, started_ticks=stat.started_ticks)
