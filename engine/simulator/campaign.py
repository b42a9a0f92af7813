"""`Campaign`: many schedules from one seed, with what they added up to."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.simulator.draw import Size, draw_schedule
from engine.simulator.schedule import Schedule
from engine.simulator.simulation import Outcome, simulate

GC_PERIOD = 50


@dataclass(slots=True)
class Campaign:
    """Sums over the schedules that ran; `failure` is the first that broke a law."""

    num_schedules: int = 0
    num_requests: int = 0
    num_completed: int = 0
    num_faults: int = 0
    num_acts: int = 0
    num_cancelled: int = 0
    num_steps: int = 0
    virtual_ms: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failure: tuple[Schedule, Outcome] | None = None

    def add(self, schedule: Schedule, outcome: Outcome) -> None:
        self.num_schedules += 1
        self.num_requests += outcome.num_requests
        self.num_completed += outcome.num_completed
        self.num_faults += len(schedule.faults)
        self.num_acts += len(schedule.acts)
        self.num_cancelled += outcome.num_cancelled
        self.num_steps += outcome.num_steps
        self.virtual_ms += outcome.virtual_ms
        self.outcomes.update(outcome.outcomes)
        if outcome.violation is not None:
            self.failure = (schedule, outcome)


def run_campaign(
    seed: int, count: int, size: Size, on_progress: Callable[[Campaign], None]
) -> Campaign:
    """Run schedules ``seed`` .. ``seed + count - 1``; stops at the first failure."""
    campaign = Campaign()
    gc.disable()  # a fleet is one web of cycles: collected at once, every few schedules
    try:
        for number in range(seed, seed + count):
            schedule = draw_schedule(number, size)
            campaign.add(schedule, simulate(schedule))
            on_progress(campaign)
            if campaign.failure is not None:
                break
            if campaign.num_schedules % GC_PERIOD == 0:
                gc.collect()
    finally:
        gc.enable()
    return campaign
