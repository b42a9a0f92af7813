"""The whole load before it starts: when each request is due, how long it is, how it is aborted."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import msgspec

from loadtest.abort_plan import AbortMix
from loadtest.history import AbortPlan
from loadtest.lengths import Lengths


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One request to come. ``due_s``: from the start of the load. ``rid`` None: a new one is drawn."""

    index: int
    due_s: float
    isl: int
    max_new_tokens: int
    prompt_seed: int
    plan: AbortPlan | None = None
    rid: str | None = None


class Shapes(msgspec.Struct, frozen=True, kw_only=True):
    """Lengths and aborts of drawn requests."""

    isl: Lengths
    osl: Lengths
    aborts: AbortMix = AbortMix()

    def slots(self, seed: int, prompt_seed: int, due_times: Iterable[float]) -> Iterator[Slot]:
        """A slot for each due time. Each facet has a stream of its own: another abort mix moves no prompt."""
        lengths = random.Random(f"lengths:{seed}")
        aborts = random.Random(f"aborts:{seed}")
        for index, due_s in enumerate(due_times):
            yield Slot(
                index=index,
                due_s=due_s,
                isl=self.isl.draw(lengths),
                max_new_tokens=self.osl.draw(lengths),
                prompt_seed=prompt_seed,
                plan=self.aborts.draw(aborts),
            )
