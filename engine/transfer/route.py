"""The rendezvous, from decode's side: ask a prefill's bootstrap server where its control link is."""

from __future__ import annotations

import http.client
import queue
import threading
from typing import Protocol

import msgspec

from engine.transfer.errors import RouteError

ROUTE_TIMEOUT_S = 1.0
MAX_ROUTE_BYTES = 64 << 10


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /route``."""

    worker_name: str
    incarnation: str
    control_host: str
    control_port: int
    page_size: int
    fingerprint: str


class AddressMap:
    """Dial proxies instead of peers: ``kind:host:port`` -> ``host:port``."""

    def __init__(self, entries: dict[str, str]) -> None:
        self._entries = entries

    def dial(self, kind: str, address: str) -> str:
        return self._entries.get(f"{kind}:{address}", address)


def fetch_route(address: str) -> Route:
    """Ask ``host:port``. Raises RouteError with what was asked and what came."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ROUTE_TIMEOUT_S)
    try:
        connection.request("GET", "/route")
        answer = connection.getresponse()
        body = answer.read(MAX_ROUTE_BYTES)
        if answer.status != 200:
            raise RouteError(f"bootstrap server {address} answered {answer.status} to GET /route")
        return msgspec.json.decode(body, type=Route)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise RouteError(f"bootstrap server {address} did not give a route: {error}") from error
    finally:
        connection.close()


class RouteSource(Protocol):
    """Who answers where a prefill's control link is, one question at a time, without waiting."""

    def ask(self) -> None:
        """Begin, unless a question is under way."""
        ...

    def answer(self) -> Route | RouteError | None:
        """The answer, once; None while there is none."""
        ...


class Resolver:
    """Fetches one route at a time on a thread of its own, so that the I/O thread never waits."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._answers: queue.SimpleQueue[Route | RouteError] = queue.SimpleQueue()
        self._is_asking = False

    def ask(self) -> None:
        """Begin, unless a question is under way."""
        if not self._is_asking:
            self._is_asking = True
            threading.Thread(target=self._run, name="route", daemon=True).start()

    def answer(self) -> Route | RouteError | None:
        """The answer, once; None while there is none."""
        try:
            found = self._answers.get_nowait()
        except queue.Empty:
            return None
        self._is_asking = False
        return found

    def _run(self) -> None:
        try:
            self._answers.put(fetch_route(self._address))
        except RouteError as error:
            self._answers.put(error)
