"""Reads one answer to its end, into a transcript."""

from __future__ import annotations

import time

import gevent

from loadtest.connection import Connection
from loadtest.sse import EventParser
from loadtest.transcript import Transcript

_HTTP_OK = 200
_AFTER_DONE_S = 0.5
"""How long a server may keep the connection open after [DONE]. Whatever it sends until then counts."""


def read_answer(connection: Connection, transcript: Transcript) -> None:
    """Returns when the server has ended the answer (or gone away, which the transcript shows).

    Raises OSError on a broken connection, unless the answer was whole already.
    """
    _read_head(connection, transcript)
    if transcript.status != _HTTP_OK or not connection.is_stream:
        _read_document(connection, transcript)
        return
    events = EventParser()
    _take_events(connection, events, transcript)
    while not connection.at_end and not transcript.done:
        connection.receive()
        _take_events(connection, events, transcript)
    if transcript.done:
        _read_trailer(connection, events, transcript)


def _read_head(connection: Connection, transcript: Transcript) -> None:
    while connection.status is None and not connection.at_end:
        connection.receive()
    if connection.status is None:
        raise ConnectionResetError("the server closed the connection without an answer")
    transcript.head(connection.status, time.monotonic_ns())


def _read_document(connection: Connection, transcript: Transcript) -> None:
    while not connection.at_end:
        connection.receive()
    if transcript.status == _HTTP_OK:
        transcript.document(connection.take(), time.monotonic_ns())
    else:
        transcript.error(connection.take(), time.monotonic_ns())


def _take_events(connection: Connection, events: EventParser, transcript: Transcript) -> None:
    now_ns = time.monotonic_ns()
    for event in events.feed(connection.take()):
        transcript.event(event, now_ns)


def _read_trailer(connection: Connection, events: EventParser, transcript: Transcript) -> None:
    """Late frames are evidence; a connection that breaks or lingers after [DONE] is no failure."""
    try:
        with gevent.Timeout(_AFTER_DONE_S, False):
            while not connection.at_end:
                connection.receive()
                _take_events(connection, events, transcript)
    except OSError:
        return
