"""Starts the requests of a load: by the clock (open loop) or one after another (closed loop)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Protocol

import gevent
from gevent.event import Event
from gevent.pool import Group

from loadtest.client import Client
from loadtest.errors import Halted
from loadtest.history import Outcome
from loadtest.request import Request
from loadtest.schedule import Slot

_NS_PER_S = 1_000_000_000
_HALT_S = 1.5
_BACK_OFF_S = 0.1


class Driver(Protocol):
    """Runs a load inside one locust user."""

    def drive(self) -> None:
        """Returns when every request has ended."""

    def stop(self) -> None:
        """Send no more; requests that are open end as not_sent or conn_error. Does not block."""


class OpenLoop:
    """Each request starts when it is due, whatever became of the others."""

    def __init__(self, client: Client, slots: Iterable[Slot]) -> None:
        self._client = client
        self._slots = slots
        self._stopped = Event()
        self._requests = Group()

    def drive(self) -> None:
        start_ns = time.monotonic_ns()
        for slot in self._slots:
            request = Request(self._client, slot)
            due_ns = start_ns + round(slot.due_s * _NS_PER_S)
            if self._wait_until(due_ns) or self._client.own_errors:
                break
            self._requests.spawn(request.run, due_ns)
        self._drain()

    def stop(self) -> None:
        self._stopped.set()

    def _wait_until(self, due_ns: int) -> bool:
        """True: stopped meanwhile. Always lets the other greenlets run, also when it is late already."""
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            if self._stopped.wait(left_ns / _NS_PER_S):
                return True
        gevent.sleep(0)
        return bool(self._stopped.is_set())

    def _drain(self) -> None:
        """Each request ends by its own time-out, so this ends too."""
        idle = gevent.spawn(self._requests.join)
        gevent.wait([idle, self._stopped], count=1)
        if self._stopped.is_set():
            self._requests.kill(Halted(), timeout=_HALT_S)
        idle.kill()


class ClosedLoop:
    """``concurrency`` requests are open at any time, until ``duration_s`` is over or none is left."""

    def __init__(
        self, client: Client, slots: Iterator[Slot], concurrency: int, duration_s: float | None
    ) -> None:
        self._client = client
        self._slots = slots
        self._concurrency = concurrency
        self._duration_s = duration_s
        self._stopped = Event()
        self._workers = Group()
        self.start_ns = 0

    def drive(self) -> None:
        self.start_ns = time.monotonic_ns()
        for _ in range(self._concurrency):
            self._workers.spawn(self._work)
        idle = gevent.spawn(self._workers.join)
        gevent.wait([idle, self._stopped], count=1)
        if self._stopped.is_set():
            self._workers.kill(Halted(), timeout=_HALT_S)
        idle.kill()

    def stop(self) -> None:
        self._stopped.set()

    def _work(self) -> None:
        for slot in self._slots:
            if self._is_over():
                return
            outcome = Request(self._client, slot).run(time.monotonic_ns())
            if outcome is not Outcome.COMPLETED and self._stopped.wait(_BACK_OFF_S):
                return  # the wait: a server that refuses at once must not be hammered

    def _is_over(self) -> bool:
        if self._stopped.is_set() or self._client.own_errors:
            return True
        if self._duration_s is None:
            return False
        return time.monotonic_ns() - self.start_ns >= self._duration_s * _NS_PER_S
