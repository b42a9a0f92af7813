"""The brake: every wait feels it at once, also from a signal handler."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from chaos.errors import Halted, Interrupted
from chaos.interrupt import Brake, signals_pull


def test_a_pull_ends_a_sleep_at_once(brake: Brake) -> None:
    threading.Timer(0.1, brake.halt, ["too slow"]).start()
    begun = time.monotonic()
    with pytest.raises(Halted, match=r"too slow"):
        brake.sleep(30)
    assert time.monotonic() - begun < 1.0


def test_a_pulled_brake_stays_pulled_and_keeps_the_first_reason(brake: Brake) -> None:
    brake.halt("first")
    brake.interrupt("second")
    for _ in range(2):
        with pytest.raises(Halted, match=r"first"):
            brake.sleep(0)
    with pytest.raises(Halted):
        brake.wait_for(lambda: False, 10)


def test_waiting_for_a_condition(brake: Brake) -> None:
    ready = threading.Event()
    threading.Timer(0.05, ready.set).start()
    assert brake.wait_for(ready.is_set, 5, poll_s=0.01)
    assert not brake.wait_for(lambda: False, 0.05, poll_s=0.01)


def test_signals_pull_and_a_second_one_is_told_to_wait(brake: Brake) -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with signals_pull(brake, said.append):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted, match=r"SIGINT"):
            brake.sleep(5)
        os.kill(os.getpid(), signal.SIGTERM)
        assert len(said) == 1
    assert signal.getsignal(signal.SIGINT) is before


def wait_often(brake: Brake) -> None:
    while True:
        brake.sleep(0.0001)


def test_no_signal_is_lost_between_two_waits(brake: Brake) -> None:
    with signals_pull(brake, lambda _: None):
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
        with pytest.raises(Interrupted):
            wait_often(brake)
