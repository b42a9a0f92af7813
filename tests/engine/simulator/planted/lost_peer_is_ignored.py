"""The rooms of a dead peer live on."""

from __future__ import annotations

from engine.core.disagg import DisaggScheduler
from engine.core.peer import PeerLost
from tests.engine.simulator.planted.patch import Patch


def on_peer_lost(self: DisaggScheduler, message: PeerLost, now_ns: int) -> None:
    self.peers.pop(message.peer, None)


PATCHES: tuple[Patch, ...] = ((DisaggScheduler, "_on_peer_lost", on_peer_lost),)
