"""Chaos runs: links, faults, guards, the heal ladder, scenarios, the oracle and its verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaoslib.types import Discovery


def discover(discover_system: bool = True) -> Discovery:
    """For `chaos discover --no-install severance` of the Chaos Toolkit, which looks for it here."""
    from importlib.metadata import version

    from chaoslib.discovery.discover import (
        discover_actions,
        discover_probes,
        initialize_discovery_result,
    )

    found: Discovery = initialize_discovery_result("severance", version("severance"), "severance")
    found["activities"].extend(discover_actions("chaos.ctk_actions"))
    found["activities"].extend(discover_probes("chaos.ctk_probes"))
    return found
