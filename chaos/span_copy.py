"""Copies the SQLite file of a span store that goes on writing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from chaos.errors import ChaosError


def copy_spans(source: Path, target: Path) -> None:
    """A consistent copy. Raises `ChaosError`."""
    try:
        with (
            sqlite3.connect(f"file:{source}?mode=ro", uri=True) as store,
            sqlite3.connect(target) as copy,
        ):
            store.backup(copy)
        store.close()
        copy.close()
    except sqlite3.Error as error:
        raise ChaosError(f"cannot copy the spans of {source}: {error}") from error
