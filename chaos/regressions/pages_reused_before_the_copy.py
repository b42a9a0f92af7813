"""Pages are copied out two steps after they were freed (after sglang#32564: the send read pages by reference,
and they held the next request by then)."""

from __future__ import annotations

from engine.core.peer import Effect, SendKv
from engine.core.scheduler import Scheduler

STEPS = 3


def apply() -> None:
    take = Scheduler.take_effects
    waiting: list[list[Effect]] = [[] for _ in range(STEPS)]

    def take_late(self: Scheduler) -> list[Effect]:
        """Sends of some steps ago, and everything else of now."""
        now = take(self)
        waiting.append([effect for effect in now if isinstance(effect, SendKv)])
        return [*waiting.pop(0), *(effect for effect in now if not isinstance(effect, SendKv))]

    Scheduler.take_effects = take_late  # type: ignore[method-assign]
