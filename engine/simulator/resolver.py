"""`SimResolver`: the rendezvous over a virtual bootstrap link."""

from __future__ import annotations

from collections.abc import Callable

from engine.simulator.clock import MS_NS, VirtualClock
from engine.simulator.network import Link
from engine.transfer.errors import RouteError
from engine.transfer.route import Route

TIMEOUT_NS = 1_000 * MS_NS


class SimResolver:
    """Implements `engine.transfer.route.RouteSource`. ``lookup`` gives the route of a living prefill;
    ``wake`` is called when there is an answer."""

    def __init__(
        self,
        clock: VirtualClock,
        link: Link,
        lookup: Callable[[], Route | None],
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._link = link
        self._lookup = lookup
        self._wake = wake
        self._answer: Route | RouteError | None = None
        self._is_asking = False

    def ask(self) -> None:
        """Begin, unless a question is under way."""
        if not self._is_asking:
            self._is_asking = True
            self._link.forward.carry(self._on_question)
            self._clock.after(TIMEOUT_NS, self._give_up, self._clock.now_ns)
            self._asked_ns = self._clock.now_ns

    def answer(self) -> Route | RouteError | None:
        """The answer, once; None while there is none."""
        found, self._answer = self._answer, None
        if found is not None:
            self._is_asking = False
        return found

    def _on_question(self) -> None:
        route = None if self._link.refusing else self._lookup()
        text = f"bootstrap server of {self._link.server} did not give a route: refused"
        self._link.back.carry(self._on_answer, route or RouteError(text))

    def _on_answer(self, answer: Route | RouteError) -> None:
        if self._is_asking and self._answer is None:
            self._answer = answer
            self._wake()

    def _give_up(self, asked_ns: int) -> None:
        if self._is_asking and self._answer is None and self._asked_ns == asked_ns:
            self._answer = RouteError(f"bootstrap server of {self._link.server} did not answer")
