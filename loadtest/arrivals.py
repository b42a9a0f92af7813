"""When requests are due: open-loop arrival times that do not depend on the server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from enum import StrEnum

import msgspec


class ArrivalPattern(StrEnum):
    POISSON = "poisson"
    GAMMA = "gamma"
    CONSTANT = "constant"


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """``rate``: mean requests per second.

    ``burstiness``: shape of the gamma distribution, as in vLLM. 1 is poisson, less is burstier, more is
    more regular (the coefficient of variation is ``burstiness ** -0.5``). Only gamma reads it.
    """

    pattern: ArrivalPattern
    rate: float
    burstiness: float = 1.0

    def due_times(self, seed: int) -> Iterator[float]:
        """Endless, growing; seconds from the start of the load. The same for the same seed."""
        rng = random.Random(f"arrivals:{seed}")
        due_s = 0.0
        while True:
            due_s += self._gap(rng)
            yield due_s

    def _gap(self, rng: random.Random) -> float:
        match self.pattern:
            case ArrivalPattern.POISSON:
                return rng.expovariate(self.rate)
            case ArrivalPattern.GAMMA:
                return rng.gammavariate(self.burstiness, 1.0 / (self.rate * self.burstiness))
            case ArrivalPattern.CONSTANT:
                return 1.0 / self.rate
