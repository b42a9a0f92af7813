"""`RidIndex`: requests by rid, so that an abort finds its own without a look at all others."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.io_struct import AbortReq
from engine.core.req import Req


class RidIndex:
    """Every request that has arrived and has not been answered, in order. One rid may stand for several:
    a router's retry has a new room, a client may use its rid again."""

    def __init__(self) -> None:
        self._by_rid: dict[str, dict[Req, None]] = {}

    def add(self, req: Req) -> None:
        self._by_rid.setdefault(req.rid, {})[req] = None

    def discard(self, req: Req) -> None:
        """Forget an answered request."""
        same = self._by_rid.get(req.rid)
        if same is not None:
            same.pop(req, None)
            if not same:
                del self._by_rid[req.rid]

    def candidates(self, abort: AbortReq) -> Iterable[Req]:
        """All that ``abort`` may mean: those of its rid, or everybody for a prefix and for abort_all."""
        if abort.prefix or abort.abort_all:
            return [req for same in self._by_rid.values() for req in same]
        return list(self._by_rid.get(abort.rid, ()))
