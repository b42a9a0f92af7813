"""The locust user: one dispatcher a process. It waits for due times and starts a greenlet per request.

A pool of users that wait between tasks would be a closed loop: a slow server would slow the load and hide
its own latency. One dispatcher with due times is an open loop, and every latency counts from the due time.
"""

from __future__ import annotations

from locust import User, task
from locust.env import Environment
from locust.exception import StopUser

from loadtest.client import Finished
from loadtest.driver import Driver
from loadtest.history import Outcome
from loadtest.outcome import ABORTED_BY_CLIENT


def user_class(driver: Driver) -> type[User]:
    """A user class for one environment; locust spawns exactly one of it."""

    class LoadUser(User):
        fixed_count = 1

        @task
        def drive(self) -> None:
            driver.drive()
            raise StopUser

    return LoadUser


class LocustEvents:
    """Fires locust's ``request`` event for every end: a stream's real latency, a failure where there is one.

    An abort that was asked for is no failure; it has a name of its own beside the completed ones.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __call__(self, finished: Finished) -> None:
        sent, end = finished.sent, finished.end
        if end is None:
            self._fire(finished, "/generate", 0.0, RuntimeError("hung"))
            return
        is_abort = end.outcome in ABORTED_BY_CLIENT
        name = f"/generate ({end.outcome})" if is_abort else "/generate"
        good = is_abort or end.outcome is Outcome.COMPLETED
        error = None if good else RuntimeError(end.error_reason or end.outcome)
        self._fire(finished, name, (end.end_ns - sent.scheduled_ns) / 1e6, error)

    def _fire(
        self, finished: Finished, name: str, response_ms: float, error: Exception | None
    ) -> None:
        self._environment.events.request.fire(
            request_type="POST",
            name=name,
            response_time=response_ms,
            response_length=finished.end.osl if finished.end else 0,
            exception=error,
            context={"rid": finished.sent.rid, "trace_id": finished.sent.trace_id},
        )
