"""Abort by rid: POST /abort_request to every worker at once, again and again until the stream ends."""

from __future__ import annotations

import time

import gevent
import msgspec
from gevent.pool import Group

from loadtest.connection import Connection
from loadtest.endpoint import Endpoint
from loadtest.errors import ProtocolError
from loadtest.history import AbortFired, AbortKind

_REPEAT_S = 0.1
_GIVE_UP_S = 5.0
_CALL_TIMEOUT_S = 1.0
_LAST_ANSWERS_S = 0.25
_ROUTE = "/abort_request"


class _Matched(msgspec.Struct, frozen=True):
    matched: int = 0


class RidAbort:
    """One request's abort. The router has no such route, so it goes to both workers of a pair."""

    def __init__(self, endpoints: tuple[Endpoint, ...], rid: str) -> None:
        self._endpoints = endpoints
        self._body = msgspec.json.encode({"rid": rid})
        self._calls = Group()
        self._loop: gevent.Greenlet | None = None
        self._due_ns = 0
        self._fired_ns = 0
        self._matched: dict[Endpoint, int] = {}

    @property
    def has_fired(self) -> bool:
        return self._loop is not None

    def fire(self, due_ns: int) -> None:
        """Start. Does not wait; only the first call counts."""
        if self._loop is None:
            self._due_ns = due_ns
            self._fired_ns = time.monotonic_ns()
            self._call_all()
            self._loop = gevent.spawn(self._repeat)

    def stop(self) -> None:
        """The stream has ended: no further calls. Answers under way get a moment to arrive."""
        if self._loop is not None:
            self._loop.kill()
            self._calls.join(_LAST_ANSWERS_S)
            self._calls.kill()

    @property
    def fired(self) -> AbortFired | None:
        """``matched``: requests that the workers found, each counted once. None: no worker answered."""
        if self._loop is None:
            return None
        return AbortFired(
            kind=AbortKind.RID,
            due_ns=self._due_ns,
            fired_ns=self._fired_ns,
            matched=sum(self._matched.values()) if self._matched else None,
        )

    def _repeat(self) -> None:
        give_up = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < give_up:
            gevent.sleep(_REPEAT_S)
            self._call_all()

    def _call_all(self) -> None:
        for endpoint in self._endpoints:
            self._calls.spawn(self._call, endpoint)

    def _call(self, endpoint: Endpoint) -> None:
        """A worker that cannot be reached has matched nothing: that is what ``matched`` says."""
        try:
            with gevent.Timeout(_CALL_TIMEOUT_S, False), Connection(endpoint) as connection:
                connection.open()
                connection.send(endpoint.post(_ROUTE, self._body))
                while not connection.at_end:
                    connection.receive()
                answer = msgspec.json.decode(connection.take(), type=_Matched)
                self._matched[endpoint] = max(self._matched.get(endpoint, 0), answer.matched)
        except (OSError, ProtocolError, msgspec.DecodeError):
            return
