"""A worker with one function of its scheduler process replaced: faults that no signal can make.

    python -m tests.e2e.liveness.patched NAME,NAME FLAG...

Signals to the scheduler process turn a fault on and off.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType

from engine.cli import add_serve_flags, serve_args
from engine.core.batch import ForwardItem, ForwardResult, ShouldStop, never
from engine.server import scheduler_process
from engine.server.launch import serve
from engine.server.scheduler_loop import SchedulerLoop

LONG_FORWARD_S = 3.0
COLD_S = 4.0
ONE_LONG_FORWARD = signal.SIGUSR1
STAND_STILL = signal.SIGUSR2
GO_ON = signal.SIGHUP


class Switch:
    """Turned by signals to the main thread, which is the loop's own."""

    def __init__(self, on: signal.Signals, off: signal.Signals | None = None) -> None:
        self.is_on = False
        self._off = threading.Event()
        signal.signal(on, self._turn_on)
        if off is not None:
            signal.signal(off, self._turn_off)

    def wait_off(self) -> None:
        """Stand still while it is on."""
        if self.is_on:
            self._off.wait()

    def _turn_on(self, _signum: int, _frame: FrameType | None) -> None:
        self._off.clear()
        self.is_on = True

    def _turn_off(self, _signum: int, _frame: FrameType | None) -> None:
        self.is_on = False
        self._off.set()


def patch_forward(before: Callable[[], None]) -> None:
    from engine.model.runner import ModelRunner

    original = ModelRunner.forward

    def forward(
        self: ModelRunner, items: Sequence[ForwardItem], should_stop: ShouldStop = never
    ) -> ForwardResult:
        before()
        return original(self, items, should_stop)

    ModelRunner.forward = forward  # type: ignore[method-assign]


def patch_turn(before: Callable[[], None]) -> None:
    original = SchedulerLoop.turn

    def turn(self: SchedulerLoop) -> None:
        before()
        original(self)

    SchedulerLoop.turn = turn  # type: ignore[method-assign]


def long_forward() -> None:
    """After `ONE_LONG_FORWARD`, one forward takes 3 s."""
    switch = Switch(ONE_LONG_FORWARD)

    def wait() -> None:
        if switch.is_on:
            switch.is_on = False
            time.sleep(LONG_FORWARD_S)

    patch_forward(wait)


def wedged_forward() -> None:
    """From `STAND_STILL` to `GO_ON` a forward stands still."""
    patch_forward(Switch(STAND_STILL, GO_ON).wait_off)


def wedged_turn() -> None:
    """From `STAND_STILL` to `GO_ON` the loop stands still outside of any batch."""
    patch_turn(Switch(STAND_STILL, GO_ON).wait_off)


def cold_start() -> None:
    """The model takes 4 s more to load, and its first forward 3 s."""
    time.sleep(COLD_S)
    forwards = iter([LONG_FORWARD_S])
    patch_forward(lambda: time.sleep(next(forwards, 0.0)))


def chatty() -> None:
    """Every turn of the loop logs 4 KB."""
    log = logging.getLogger("chatty")
    patch_turn(lambda: log.info("x" * 4096))


PATCHES = {
    patch.__name__: patch
    for patch in (long_forward, wedged_forward, wedged_turn, cold_start, chatty)
}


def main(argv: list[str]) -> int:
    names, *flags = argv
    if flags[:1] == ["scheduler"]:
        for name in names.split(","):
            PATCHES[name]()
        return scheduler_process.main(flags)
    parser = argparse.ArgumentParser()
    add_serve_flags(parser)
    child = (sys.executable, "-m", "tests.e2e.liveness.patched", names, "scheduler")
    return serve(serve_args(parser.parse_args(flags)), child)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
