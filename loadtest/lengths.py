"""How long prompts and outputs are: a bounded distribution with a chosen mean."""

from __future__ import annotations

import random

import msgspec

_CONCENTRATION = 4.0
"""Sum of the two shapes of the beta distribution: one hump with a tail to the far end."""


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts in [low, high]. ``mean`` None: uniform; else a beta distribution scaled to it."""

    low: int
    high: int
    mean: float | None = None

    def draw(self, rng: random.Random) -> int:
        if self.mean is None:
            return rng.randint(self.low, self.high)
        if self.low == self.high:
            return self.low
        share = (self.mean - self.low) / (self.high - self.low)
        if not 0 < share < 1:
            return self.low if share <= 0 else self.high
        drawn = rng.betavariate(share * _CONCENTRATION, (1 - share) * _CONCENTRATION)
        return self.low + round(drawn * (self.high - self.low))
