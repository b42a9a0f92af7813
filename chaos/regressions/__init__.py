"""Known bugs, put back one at a time, to prove that the oracle sees them.

    python -m chaos.regressions NAME -- severance serve ...
    python -m chaos.regressions --list
    python -m chaos.regressions --matrix --out DIR

Each module patches one function after a public incident; the product itself has no hook for it.
`chaos.regressions.known` says of each what it does and which check must catch it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from chaos.regressions.known import KNOWN, Known, Process

__all__ = ["KNOWN", "NAMES", "Known", "Process", "Regression", "find", "load"]
NAMES = tuple(known.name for known in KNOWN)


class Regression(Protocol):
    """What a module of this package offers."""

    def apply(self) -> None:
        """Put the bug in, in this process."""
        ...


def find(name: str) -> Known:
    """What is known of one bug. Raises ValueError that lists the names."""
    for known in KNOWN:
        if known.name == name:
            return known
    raise ValueError(f"no regression {name!r}; there are {', '.join(NAMES)}")


def load(name: str) -> Regression:
    """The module of one bug. Raises ValueError that lists the names."""
    return cast("Regression", import_module(f"{__name__}.{find(name).name}"))
