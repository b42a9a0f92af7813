"""`LoopPulse`: what the I/O thread tells the world about the scheduler loop."""

from __future__ import annotations

from dataclasses import dataclass

WEDGED_FLOOR_NS = 5_000_000_000


def wedged_for_ns(step_age_ns: int, longest_step_ns: int) -> int:
    """How long a loop has stood still; 0 while its step may be just a long one."""
    limit_ns = max(WEDGED_FLOOR_NS, 10 * longest_step_ns)
    return step_age_ns if step_age_ns > limit_ns else 0


@dataclass(slots=True)
class LoopPulse:
    """Written by the loop, read by the I/O thread; single words, so no lock.

    ``step_started_ns`` 0: the loop is waiting for work, which is no age at all.
    """

    step: int = 0
    step_started_ns: int = 0
    longest_step_ns: int = 0
    rooms_open: int = 0

    def age_ns(self, now_ns: int) -> int:
        started = self.step_started_ns
        return now_ns - started if started else 0

    def stands_still(self, now_ns: int) -> bool:
        """Would a peer call this loop dead? Then it must not open sessions, only to lose them again."""
        return wedged_for_ns(self.age_ns(now_ns), self.longest_step_ns) > 0

    def begin_step(self, now_ns: int) -> None:
        self.step_started_ns = now_ns

    def end_step(self, now_ns: int) -> None:
        self.longest_step_ns = max(self.longest_step_ns, now_ns - self.step_started_ns)
        self.step += 1
        self.step_started_ns = 0
