"""Best-effort copy of every accepted body to another OTLP backend (Jaeger, a collector).

Its own thread and a queue bounded in bytes: a dead or slow backend costs counted drops, never time.
"""

from __future__ import annotations

import http.client
import threading
from collections import deque
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from dashboards.errors import UsageError
from dashboards.spanstore.body import MAX_BODY_BYTES
from dashboards.spanstore.tally import Tally

MAX_QUEUED_BYTES = 2 * MAX_BODY_BYTES
POST_TIMEOUT_S = 2.0
DRAIN_S = 1.0


class Parcel(NamedTuple):
    """A body as it came, compressed or not."""

    body: bytes
    content_type: str
    content_encoding: str
    spans: int


def parse_forward_url(url: str) -> SplitResult:
    """``http(s)://host[:port][/path]``; without a path, OTLP's own is meant. Raises `UsageError`."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise UsageError(
            f"--forward {url}: not an http(s) URL; give an OTLP/HTTP endpoint "
            "such as http://127.0.0.1:4318/v1/traces"
        )
    return parts._replace(path="/v1/traces") if parts.path in ("", "/") else parts


class Forwarder:
    def __init__(self, url: SplitResult, tally: Tally) -> None:
        self._url = url
        self._tally = tally
        self._parcels: deque[Parcel] = deque()
        self._queued_bytes = 0
        self._closing = False
        self._changed = threading.Condition()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="span-forwarder", daemon=True)
        self._thread.start()

    def offer(self, parcel: Parcel) -> None:
        """Queue a parcel, or count it as dropped; never waits."""
        with self._changed:
            if self._queued_bytes + len(parcel.body) > MAX_QUEUED_BYTES:
                self._tally.add(forward_dropped=parcel.spans)
                return
            self._parcels.append(parcel)
            self._queued_bytes += len(parcel.body)
            self._changed.notify_all()

    def close(self) -> None:
        """Give what waits `DRAIN_S` seconds, then drop the rest."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(DRAIN_S)
        with self._changed:
            left = sum(parcel.spans for parcel in self._parcels)
            self._parcels.clear()
        self._tally.add(forward_dropped=left)

    def _take(self) -> Parcel | None:
        with self._changed:
            while not self._parcels and not self._closing:
                self._changed.wait()
            if not self._parcels:
                return None
            parcel = self._parcels.popleft()
            self._queued_bytes -= len(parcel.body)
            return parcel

    def _run(self) -> None:
        while (parcel := self._take()) is not None:
            if self._deliver(parcel):
                self._tally.add(forwarded=parcel.spans)
            else:
                self._tally.add(forward_dropped=parcel.spans)
        self._hang_up()

    def _deliver(self, parcel: Parcel) -> bool:
        """One try; one more where a kept-alive connection had gone stale."""
        fresh = self._connection is None
        try:
            return self._post(parcel)
        except (OSError, http.client.HTTPException):
            self._hang_up()
        if fresh:
            return False
        try:
            return self._post(parcel)
        except (OSError, http.client.HTTPException):
            self._hang_up()
            return False

    def _post(self, parcel: Parcel) -> bool:
        if self._connection is None:
            self._connection = self._dial()
        headers = {"Content-Type": parcel.content_type}
        if parcel.content_encoding:
            headers["Content-Encoding"] = parcel.content_encoding
        path = self._url.path + (f"?{self._url.query}" if self._url.query else "")
        self._connection.request("POST", path, body=parcel.body, headers=headers)
        answer = self._connection.getresponse()
        answer.read(MAX_BODY_BYTES)
        if not answer.isclosed():  # a body past the bound would be taken for the next answer
            self._hang_up()
        return 200 <= answer.status < 300

    def _dial(self) -> http.client.HTTPConnection:
        kind = (
            http.client.HTTPSConnection
            if self._url.scheme == "https"
            else http.client.HTTPConnection
        )
        return kind(self._url.hostname or "", self._url.port, timeout=POST_TIMEOUT_S)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
