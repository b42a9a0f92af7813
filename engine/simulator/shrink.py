"""`shrink`: a failing schedule -> a small one that breaks the same law.

Delta debugging over requests and faults, then aborts one by one, then shorter times. Every candidate is a
whole run from the start, so what comes out fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from engine.simulator.oracle.violation import Law
from engine.simulator.schedule import Act, Fault, Request, Schedule
from engine.simulator.simulation import simulate

T = TypeVar("T")
MAX_RUNS = 600


_OPTIONAL = (
    *("num_ranks", "cancel_every", "waiting_timeout_ms", "running_timeout_ms"),
    *("optimistic_attempts", "poll_failure_percent"),
)


class Shrinker:
    """Keeps the smallest schedule that still breaks ``law``."""

    def __init__(self, schedule: Schedule, law: Law, max_runs: int = MAX_RUNS) -> None:
        self.smallest = schedule
        self.num_runs = 0
        self._law = law
        self._max_runs = max_runs

    def fails(self, candidate: Schedule) -> bool:
        """Run it; one that fails the same way is the smallest from now on."""
        if self.num_runs >= self._max_runs:
            return False
        self.num_runs += 1
        violation = simulate(candidate).violation
        if violation is None or violation.law is not self._law:
            return False
        self.smallest = candidate
        return True

    def run(self) -> Schedule:
        self._shrink_list(self.smallest.faults, self._with_faults)
        self._shrink_list(self.smallest.requests, self._with_requests)
        self._shrink_list(self.smallest.faults, self._with_faults)
        self._shrink_list(self.smallest.acts, self._with_acts)
        self._drop_aborts()
        self._simplify()
        self._shorten()
        return self.smallest

    def _with_faults(self, faults: Sequence[Fault]) -> Schedule:
        return msgspec.structs.replace(self.smallest, faults=tuple(faults))

    def _with_requests(self, requests: Sequence[Request]) -> Schedule:
        return msgspec.structs.replace(self.smallest, requests=tuple(requests))

    def _with_acts(self, acts: Sequence[Act]) -> Schedule:
        return msgspec.structs.replace(self.smallest, acts=tuple(acts))

    def _simplify(self) -> None:
        """One rank, forwards that nothing cancels, no timeouts, as far as it fails without them."""
        for name in _OPTIONAL:
            change = {name: int(name == "num_ranks")}
            topology = msgspec.structs.replace(self.smallest.topology, **change)
            if topology != self.smallest.topology:
                self.fails(msgspec.structs.replace(self.smallest, topology=topology))
        for index, request in enumerate(self.smallest.requests):
            if request.deadline_ms:
                self._try_request(index, msgspec.structs.replace(request, deadline_ms=0))

    def _shrink_list(self, items: Sequence[T], build: Callable[[Sequence[T]], Schedule]) -> None:
        """Take out runs of items, large ones first, as long as it still fails."""
        kept, size = list(items), len(items)
        while size:
            at = 0
            while at < len(kept):
                fewer = kept[:at] + kept[at + size :]
                if self.fails(build(fewer)):
                    kept = fewer
                else:
                    at += size
            size //= 2

    def _drop_aborts(self) -> None:
        for index, request in enumerate(self.smallest.requests):
            for abort in request.aborts:
                now = self.smallest.requests[index]
                fewer = tuple(other for other in now.aborts if other is not abort)
                self._try_request(index, msgspec.structs.replace(now, aborts=fewer))

    def _try_request(self, index: int, request: Request) -> None:
        requests = list(self.smallest.requests)
        requests[index] = request
        self.fails(self._with_requests(requests))

    def _shorten(self) -> None:
        """Shorter faults, shorter requests, an earlier end."""
        for index in range(len(self.smallest.faults)):
            for for_ms in _halves(self.smallest.faults[index].for_ms):
                faults = list(self.smallest.faults)
                faults[index] = msgspec.structs.replace(faults[index], for_ms=for_ms)
                if not self.fails(self._with_faults(faults)):
                    break
        for index in range(len(self.smallest.requests)):
            for num_tokens in _halves(self.smallest.requests[index].num_tokens):
                requests = list(self.smallest.requests)
                requests[index] = msgspec.structs.replace(requests[index], num_tokens=num_tokens)
                if not num_tokens or not self.fails(self._with_requests(requests)):
                    break
        for horizon_ms in _halves(self.smallest.horizon_ms):
            shorter = msgspec.structs.replace(self.smallest, horizon_ms=horizon_ms)
            if not self.fails(shorter):
                break


def _halves(number: int) -> Iterator[int]:
    while number > 1:
        number //= 2
        yield number


def shrink(schedule: Schedule, law: Law, max_runs: int = MAX_RUNS) -> Schedule:
    """The smallest schedule found that breaks ``law``."""
    return Shrinker(schedule, law, max_runs).run()
