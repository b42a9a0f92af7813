"""The scheduler for a role."""

from __future__ import annotations

from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.decode import DecodeScheduler
from engine.core.polling import PollFailures
from engine.core.prefill import PrefillScheduler
from engine.core.scheduler import Scheduler
from engine.core.unified import UnifiedScheduler


def make_scheduler(
    mode: DisaggregationMode, config: SchedulerConfig, poll_failures: PollFailures | None = None
) -> Scheduler:
    """One of the three schedulers; ``poll_failures`` fails some of its polls, for tests."""
    scheduler = _of_role(mode, config)
    if poll_failures is not None:
        scheduler.poll_failures = poll_failures
    return scheduler


def _of_role(mode: DisaggregationMode, config: SchedulerConfig) -> Scheduler:
    match mode:
        case DisaggregationMode.PREFILL:
            return PrefillScheduler(config)
        case DisaggregationMode.DECODE:
            return DecodeScheduler(config)
        case DisaggregationMode.UNIFIED:
            return UnifiedScheduler(config)
