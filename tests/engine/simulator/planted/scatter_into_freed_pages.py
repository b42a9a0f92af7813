"""Pages are written where METADATA once said, as a one-sided write would."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from engine.core.decode import DecodeScheduler
from engine.core.peer import KvArrived, Scatter
from engine.core.req import Req
from tests.engine.simulator.planted.patch import Patch

_RIGHT_SCATTER = DecodeScheduler._scatter
_RIGHT_PREALLOCATE = DecodeScheduler._preallocate
_PAGES: WeakKeyDictionary[DecodeScheduler, dict[int | None, tuple[int, ...]]] = WeakKeyDictionary()


def preallocate(self: DecodeScheduler, req: Req, now_ns: int) -> None:
    _RIGHT_PREALLOCATE(self, req, now_ns)
    _PAGES.setdefault(self, {})[req.room] = req.page_ids


def scatter(self: DecodeScheduler, message: KvArrived, now_ns: int) -> None:
    header = message.header
    pages = _PAGES.get(self, {}).get(header.room)
    if self._by_room.get(header.room) is None and pages:
        last = header.first_page + header.num_pages
        self.emit(Scatter(page_ids=pages[header.first_page : last], data=message.data))
        return
    _RIGHT_SCATTER(self, message, now_ns)


PATCHES: tuple[Patch, ...] = (
    (DecodeScheduler, "_scatter", scatter),
    (DecodeScheduler, "_preallocate", preallocate),
)
