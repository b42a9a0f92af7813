"""`FairQueue`: one first-come-first-served line for each peer, served in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.core.req import Req, ReqKey


class FairQueue:
    """A line that has to stand still stops nobody in another line. `pop` costs O(lines)."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Req]] = {}
        self._peer_of: dict[ReqKey, str] = {}

    def __len__(self) -> int:
        return len(self._peer_of)

    def __contains__(self, req: Req) -> bool:
        return req.key in self._peer_of

    def append(self, req: Req, peer: str) -> None:
        self._lines.setdefault(peer, deque()).append(req)
        self._peer_of[req.key] = peer

    def remove(self, req: Req) -> None:
        peer = self._peer_of.pop(req.key)
        line = self._lines[peer]
        line.remove(req)
        if not line:
            del self._lines[peer]

    def pop(self, may_go: Callable[[str], bool]) -> Req | None:
        """The head of the first line that may go; that line is the last one next time."""
        peer = next((peer for peer in self._lines if may_go(peer)), None)
        if peer is None:
            return None
        line = self._lines.pop(peer)
        req = line.popleft()
        del self._peer_of[req.key]
        if line:
            self._lines[peer] = line
        return req
