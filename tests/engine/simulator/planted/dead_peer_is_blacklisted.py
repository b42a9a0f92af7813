"""A prefill that was lost once is never dialed again."""

from __future__ import annotations

from engine.transfer.decode_links import DecodeLinks, _Prefill
from tests.engine.simulator.planted.patch import Patch


def resolve(self: DecodeLinks, prefill: _Prefill, now_ns: int) -> None:
    if prefill.route is None:
        _RIGHT(self, prefill, now_ns)


_RIGHT = DecodeLinks._resolve
PATCHES: tuple[Patch, ...] = ((DecodeLinks, "_resolve", resolve),)
