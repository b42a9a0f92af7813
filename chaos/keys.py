"""API keys of the workers. From the environment alone: so no key stands in an argv, and none in a record."""

from __future__ import annotations

import os

API_KEY = "SEVERANCE_API_KEY"
ADMIN_API_KEY = "SEVERANCE_ADMIN_API_KEY"
"""The same variables that `severance serve` and `severance load` read; children inherit them."""


def strongest() -> str | None:
    """Name of the variable whose key opens a worker's every call; None if no key is set."""
    return next((name for name in (ADMIN_API_KEY, API_KEY) if os.environ.get(name)), None)


def authorization() -> dict[str, str]:
    """The header that opens a worker's every call; empty if no key is set."""
    name = strongest()
    return {"Authorization": f"Bearer {os.environ[name]}"} if name else {}
