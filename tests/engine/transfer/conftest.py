"""Real toxiproxy servers for the links."""

from __future__ import annotations

from tests.chaos.conftest import journal, launcher, ports, serve, toxiproxy_binary

__all__ = ["journal", "launcher", "ports", "serve", "toxiproxy_binary"]
