"""A short silence is the peer's death (after sglang#25287: one 2 s blip, and the pair was given up)."""

from __future__ import annotations

from engine.core.peer import PeerLost
from engine.transfer.session import Session

DEAD_AFTER_NS = 450_000_000


def apply() -> None:
    def hasty(self: Session, now_ns: int) -> PeerLost | None:
        silent_ns = now_ns - self.heard_ns
        if silent_ns > DEAD_AFTER_NS:
            return self.lost(f"no beat from {self.peer} for {silent_ns / 1e9:.2f} s")
        return None

    Session.verdict = hasty  # type: ignore[method-assign]
