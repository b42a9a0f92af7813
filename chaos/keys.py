"""API keys of the workers. From the environment alone: so no key stands in an argv, and none in a record."""

from __future__ import annotations

import os

API_KEY = "SEVERANCE_API_KEY"
ADMIN_API_KEY = "SEVERANCE_ADMIN_API_KEY"
"""The same variables that `severance serve` and `severance load` read; children inherit them."""


def authorization() -> dict[str, str]:
    """The header that opens a worker's every call; empty if no key is set."""
    key = os.environ.get(ADMIN_API_KEY) or os.environ.get(API_KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}
