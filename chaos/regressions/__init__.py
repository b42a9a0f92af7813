"""Known bugs, put back one at a time, to prove that the oracle sees them.

    python -m chaos.regressions NAME -- severance serve ...

Each module patches one function after a public incident; the product itself has no hook for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

NAMES = ("leak_pages_on_chunked_abort", "peer_death_unnoticed", "foreign_page")


class Regression(Protocol):
    """What a module of this package offers. ``CAUGHT_BY``: the checks of which one must fail."""

    CAUGHT_BY: tuple[str, ...]

    def apply(self) -> None:
        """Put the bug in, in this process."""
        ...


def load(name: str) -> Regression:
    """Find one by name. Raises ValueError that lists the names."""
    if name not in NAMES:
        raise ValueError(f"no regression {name!r}; there are {', '.join(NAMES)}")
    return cast("Regression", import_module(f"{__name__}.{name}"))
