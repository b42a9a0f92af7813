"""Errors of the simulator.

SimulatorError
├── ScheduleError     a schedule file that cannot be read
└── RanksDisagree     two ranks of a worker have come to different decisions
"""

from __future__ import annotations


class SimulatorError(Exception):
    """Root of the simulator's errors."""


class ScheduleError(SimulatorError):
    """A schedule file that cannot be read; the message says why."""


class RanksDisagree(SimulatorError):
    """The message says which rank, and in what."""
