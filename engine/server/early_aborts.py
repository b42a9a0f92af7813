"""`EarlyAborts`: aborts that overtook their request on the way here."""

from __future__ import annotations

from collections import OrderedDict

KEEP_NS = 2_000_000_000
MAX_RIDS = 10_000


class EarlyAborts:
    """A rid that is aborted before it has arrived is aborted when it arrives, for `KEEP_NS`.

    An abort that comes after the end is none of these: a rid that ended within the same time is known,
    and its answer wipes an early abort out, so that the rid can be used again at once.
    """

    def __init__(self) -> None:
        self._aborted: OrderedDict[str, int] = OrderedDict()
        self._ended: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._aborted) + len(self._ended)

    def count(self, now_ns: int) -> int:
        """How many rids are known, the outdated ones gone."""
        self._forget_old(now_ns)
        return len(self)

    def note_abort(self, rid: str, now_ns: int) -> bool:
        """Remember an abort of a rid that is not open; False if it has just ended."""
        self._forget_old(now_ns)
        if rid in self._ended:
            return False
        _put(self._aborted, rid, now_ns)
        return True

    def note_end(self, rid: str, now_ns: int) -> None:
        """The rid had its answer."""
        self._forget_old(now_ns)
        self._aborted.pop(rid, None)
        _put(self._ended, rid, now_ns)

    def was_aborted(self, rid: str, now_ns: int) -> bool:
        """Was this rid, which arrives now, aborted already?"""
        self._forget_old(now_ns)
        return rid in self._aborted

    def _forget_old(self, now_ns: int) -> None:
        for rids in (self._aborted, self._ended):
            while rids and now_ns - next(iter(rids.values())) > KEEP_NS:
                rids.popitem(last=False)


def _put(rids: OrderedDict[str, int], rid: str, now_ns: int) -> None:
    rids.pop(rid, None)
    rids[rid] = now_ns
    if len(rids) > MAX_RIDS:
        rids.popitem(last=False)
