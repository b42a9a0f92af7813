"""`FairQueue`: one first-come-first-served line for each peer, served in turn."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.req import Req
from engine.core.req_queue import ReqQueue


class FairQueue:
    """A line that has to stand still stops nobody in another line. `pop` costs O(lines), all else O(1)."""

    def __init__(self) -> None:
        self._lines: dict[str, ReqQueue] = {}
        self._peer_of: dict[Req, str] = {}

    def __len__(self) -> int:
        return len(self._peer_of)

    def __contains__(self, req: Req) -> bool:
        return req in self._peer_of

    def append(self, req: Req, peer: str) -> None:
        self._lines.setdefault(peer, ReqQueue()).append(req)
        self._peer_of[req] = peer

    def push_front(self, req: Req, peer: str) -> None:
        """To the head of its peer's line."""
        self._lines.setdefault(peer, ReqQueue()).push_front(req)
        self._peer_of[req] = peer

    def discard(self, req: Req) -> None:
        """Take ``req`` out, if it is here."""
        peer = self._peer_of.pop(req, None)
        if peer is not None:
            self._lines[peer].discard(req)
            self._drop_if_empty(peer)

    def pop(self, may_go: Callable[[str], bool]) -> Req | None:
        """The head of the first line that may go; that line is the last one next time."""
        peer = next((peer for peer in self._lines if may_go(peer)), None)
        if peer is None:
            return None
        line = self._lines.pop(peer)
        self._lines[peer] = line
        req = line.popleft()
        del self._peer_of[req]
        self._drop_if_empty(peer)
        return req

    def _drop_if_empty(self, peer: str) -> None:
        if not self._lines[peer]:
            del self._lines[peer]
