"""`PeerLines`: a queue in order of arrival that also knows the line of each peer in it."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.req import Req
from engine.core.req_queue import ReqQueue


class PeerLines(ReqQueue):
    """``peer_of`` a request must not change while it waits here."""

    def __init__(self, peer_of: Callable[[Req], str | None]) -> None:
        super().__init__()
        self._find_peer = peer_of
        self._lines: dict[str | None, ReqQueue] = {}
        self._peer_of: dict[Req, str | None] = {}

    def append(self, req: Req) -> None:
        super().append(req)
        self._line(req).append(req)

    def push_front(self, req: Req) -> None:
        super().push_front(req)
        self._line(req).push_front(req)

    def popleft(self) -> Req:
        req = super().popleft()
        self._leave_line(req)
        return req

    def discard(self, req: Req) -> None:
        super().discard(req)
        self._leave_line(req)

    def first(self, may_go: Callable[[Req], bool]) -> Req | None:
        """The head, or if it may not go the head of another line that may. O(lines), not O(requests)."""
        head = self.head
        if head is None or may_go(head):
            return head
        heads = (line.head for line in self._lines.values())
        return next((req for req in heads if req is not None and may_go(req)), None)

    def _line(self, req: Req) -> ReqQueue:
        peer = self._peer_of[req] = self._find_peer(req)
        return self._lines.setdefault(peer, ReqQueue())

    def _leave_line(self, req: Req) -> None:
        if req not in self._peer_of:
            return
        peer = self._peer_of.pop(req)
        self._lines[peer].discard(req)
        if not self._lines[peer]:
            del self._lines[peer]
