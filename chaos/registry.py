"""Runs that have begun and not ended, in the user's cache, so that `severance heal` finds a crashed one."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from chaos.proc import Identity, alive


class ActiveRun(msgspec.Struct, frozen=True, kw_only=True):
    """``runner``: the process that runs it."""

    run_id: str
    directory: str
    runner: Identity

    @property
    def runs(self) -> bool:
        return alive(self.runner)


def state_directory() -> Path:
    """``$XDG_CACHE_HOME/severance``, else ``~/.cache/severance``."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "severance"


def register(run: ActiveRun) -> None:
    """Note that it has begun. Raises `OSError` where the cache cannot be written."""
    directory = state_directory() / "runs"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{run.run_id}.json").write_bytes(msgspec.json.encode(run))


def unregister(run_id: str) -> None:
    (state_directory() / "runs" / f"{run_id}.json").unlink(missing_ok=True)


def active_runs() -> list[ActiveRun]:
    """Every run that has not been unregistered, crashed or not. Broken entries are skipped."""
    found = []
    for path in sorted((state_directory() / "runs").glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=ActiveRun))
        except (OSError, msgspec.DecodeError):
            continue
    return found
