"""`ReqQueue`: requests in order, where anyone can leave at once. Every operation is O(1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from engine.core.req import Req


class ReqQueue:
    """First come, first served. An abort takes its request out of a queue of 10,000 as fast as of 10.

    An OrderedDict, since a plain dict looks for its first key past everything that has left.
    """

    def __init__(self) -> None:
        self._reqs: OrderedDict[Req, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._reqs)

    def __iter__(self) -> Iterator[Req]:
        return iter(self._reqs)

    def __contains__(self, req: Req) -> bool:
        return req in self._reqs

    @property
    def head(self) -> Req | None:
        """Who is next, if anybody."""
        return next(iter(self._reqs), None)

    def append(self, req: Req) -> None:
        self._reqs[req] = None

    def push_front(self, req: Req) -> None:
        self._reqs[req] = None
        self._reqs.move_to_end(req, last=False)

    def popleft(self) -> Req:
        """Take out the head. Raises KeyError if there is none."""
        return self._reqs.popitem(last=False)[0]

    def discard(self, req: Req) -> None:
        """Take ``req`` out, if it is here."""
        self._reqs.pop(req, None)
