"""The Chaos Toolkit extension under one name, for experiment files (docs/ctk.md).

Its discovery goes through `chaos.discover`.
"""

from __future__ import annotations

from chaos.ctk_actions import (
    abort_request,
    blackhole_links,
    cut_links,
    generate,
    heal,
    kill_worker,
    pause_worker,
    stall_links,
)
from chaos.ctk_probes import links_are_clean, nothing_is_held, serves, verdict_passed, worker_runs

__all__ = [
    "abort_request",
    "blackhole_links",
    "cut_links",
    "generate",
    "heal",
    "kill_worker",
    "links_are_clean",
    "nothing_is_held",
    "pause_worker",
    "serves",
    "stall_links",
    "verdict_passed",
    "worker_runs",
]
