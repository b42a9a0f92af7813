"""Finds scenario files: the shipped ones, those of a folder, those that a user named."""

from __future__ import annotations

from pathlib import Path

from chaos.errors import UsageError

SHIPPED = Path(__file__).resolve().parent / "scenarios"


def find_scenarios(path: Path) -> list[Path]:
    """The file itself, or every ``*.yaml`` in a folder and its folders. Raises `UsageError` if none."""
    if path.is_file():
        return [path]
    found = sorted(path.rglob("*.yaml")) if path.is_dir() else []
    if not found:
        raise UsageError(f"{path} is no scenario file and no folder that holds one (*.yaml)")
    return found
