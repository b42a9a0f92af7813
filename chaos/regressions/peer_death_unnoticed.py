"""A dead peer's rooms are left to wait (after sglang#28651: each slot was held for its whole timeout)."""

from __future__ import annotations

from engine.core.disagg import DisaggScheduler
from engine.core.peer import PeerLost


def apply() -> None:
    def forget_the_peer_only(self: DisaggScheduler, message: PeerLost, now_ns: int) -> None:
        self.peers.pop(message.peer, None)

    DisaggScheduler._on_peer_lost = forget_the_peer_only  # type: ignore[method-assign]
