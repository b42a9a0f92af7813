"""Service level objectives of a request, written as in vLLM: ``ttft:500 tpot:50 e2el:5000`` (ms)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from loadtest.errors import UsageError

_FLAG = "--goodput"
_NAMES = ("ttft", "tpot", "e2el")


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """Upper limits in ms; infinite where none was given."""

    ttft: float = math.inf
    tpot: float = math.inf
    e2el: float = math.inf

    def met_by(self, ttft_ms: float, tpot_ms: float, e2el_ms: float) -> bool:
        return ttft_ms <= self.ttft and tpot_ms <= self.tpot and e2el_ms <= self.e2el


def parse_goodput(words: Sequence[str]) -> Goodput:
    """Raises `UsageError` for a word that is not NAME:MS."""
    limits: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition(":")
        try:
            limits[name] = float(value)
        except ValueError:
            limits[name] = -1.0
        if name not in _NAMES or not limits[name] > 0:
            raise UsageError(_FLAG, f"{word!r} is not NAME:MS with a NAME of {', '.join(_NAMES)}")
    return Goodput(**limits)
