"""The real scheduler process, which also notes when each of its steps began and ended.

``python -m bench.stepped_scheduler ARGS_FILE``; at its end it writes a JSON list of `Step` to $BENCH_STEPS.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec

from engine.server import scheduler_process
from engine.server.scheduler_loop import SchedulerLoop

STEPS_VARIABLE = "BENCH_STEPS"


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One turn of the loop that ran a batch. CLOCK_MONOTONIC ns."""

    began_ns: int
    ended_ns: int


class SteppedLoop(SchedulerLoop):
    """The loop itself is untouched; its turns are timed from outside."""

    _steps: list[Step]

    def run(self) -> None:
        self._steps = []
        try:
            super().run()
        finally:
            Path(os.environ[STEPS_VARIABLE]).write_bytes(msgspec.json.encode(self._steps))

    def turn(self) -> None:
        step, began_ns = self._core.step, time.monotonic_ns()
        super().turn()
        if self._core.step != step:
            self._steps.append(Step(began_ns, time.monotonic_ns()))


if __name__ == "__main__":
    # Its loop is made in the middle of `serve`; a benchmark puts its own there, the product has no hook.
    vars(scheduler_process)["SchedulerLoop"] = SteppedLoop
    sys.exit(scheduler_process.main(sys.argv))
