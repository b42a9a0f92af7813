"""The scheduler for a role."""

from __future__ import annotations

from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.decode import DecodeScheduler
from engine.core.prefill import PrefillScheduler
from engine.core.scheduler import Scheduler
from engine.core.unified import UnifiedScheduler


def make_scheduler(mode: DisaggregationMode, config: SchedulerConfig) -> Scheduler:
    """One of the three schedulers."""
    match mode:
        case DisaggregationMode.PREFILL:
            return PrefillScheduler(config)
        case DisaggregationMode.DECODE:
            return DecodeScheduler(config)
        case DisaggregationMode.UNIFIED:
            return UnifiedScheduler(config)
