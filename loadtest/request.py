"""The life of one request: on record, sent, read, perhaps aborted on purpose, and its end on record.

due --> sent record --> connect --> send --> read ... [DONE] --> end record
                           |  the plan's timer or token count (ClientAct, or POST /abort_request)
                           |  --request-timeout (RequestTimedOut: no end record)
                           |  SIGTERM (Halted)
"""

from __future__ import annotations

import os
import time

import gevent

from loadtest.client import Client
from loadtest.connection import Connection
from loadtest.errors import ClientAct, Halted, LoadError, ProtocolError, RequestTimedOut
from loadtest.history import AbortAt, AbortFired, AbortKind, Outcome, Sent
from loadtest.outcome import Ending, judge
from loadtest.plan_timer import PlanTimer
from loadtest.rid_abort import RidAbort
from loadtest.schedule import Slot
from loadtest.stream import read_answer
from loadtest.tracing import RequestSpan
from loadtest.transcript import Transcript

_NS_PER_S = 1e9


def new_rid() -> str:
    """32 hex digits: of one length, so that no rid is the prefix of another (SGLang aborts by prefix)."""
    return os.urandom(16).hex()


class Request:
    """Prepared ahead of its due time; `run` it once, in a greenlet of its own."""

    def __init__(self, client: Client, slot: Slot) -> None:
        self._client = client
        self._slot = slot
        self._rid = slot.rid or new_rid()
        self._body = client.body(slot, self._rid)
        self._transcript = Transcript()
        self._connection = Connection(client.config.url)
        at = slot.plan.at if slot.plan else AbortAt.ALL
        self._rid_abort = RidAbort(client.config.abort_urls.at(at), self._rid)
        self._plan = PlanTimer(slot.plan, self._transcript, self._rid_abort)
        self._closed: AbortFired | None = None
        self._broken: str | None = None
        self._halted = False
        self._timed_out = False

    def run(self, due_ns: int) -> Outcome | None:
        """``due_ns``: CLOCK_MONOTONIC. Everything but a hung request (None) gets its end record."""
        try:
            sent, span = self._client.begin(self._slot, self._rid, due_ns)
            self._exchange(sent, span)
            return self._finish(sent, span)
        except LoadError as error:
            self._client.own_errors.append(error)
            return None

    def _exchange(self, sent: Sent, span: RequestSpan) -> None:
        limit_s = sent.scheduled_ns / _NS_PER_S + self._client.config.request_timeout_s
        limit = gevent.Timeout(max(0.0, limit_s - time.monotonic()), RequestTimedOut())
        try:
            limit.start()
            self._plan.start(sent.scheduled_ns)
            self._connection.open()
            self._connection.send(self._client.request(self._body, span.traceparent))
            read_answer(self._connection, self._transcript)
        except ClientAct:
            self._closed = self._close_as_planned()
        except RequestTimedOut:
            self._timed_out = True
        except Halted:
            self._halted = True
        except (OSError, ProtocolError) as error:
            self._broken = f"{type(error).__name__}: {error}"
        except Exception as error:  # a bug of ours must not look like a hung server
            self._client.own_errors.append(error)
            self._broken = f"the load driver failed: {error!r}"
        finally:
            limit.close()
            self._plan.stop()
            self._connection.close()

    def _close_as_planned(self) -> AbortFired:
        fired_ns = time.monotonic_ns()
        self._connection.close()
        kind = self._slot.plan.kind if self._slot.plan else AbortKind.DISCONNECT
        return AbortFired(kind=kind, due_ns=self._plan.due_ns, fired_ns=fired_ns)

    def _finish(self, sent: Sent, span: RequestSpan) -> Outcome | None:
        try:
            self._rid_abort.stop()
        except Halted:
            self._halted = True
        transcript = self._transcript
        if self._timed_out and not transcript.answered:
            self._client.hang(sent, span, transcript)
            return None
        abort = self._closed or self._rid_abort.fired
        ending = Ending(
            acted=abort.kind if abort else None,
            broken="the load driver was stopped" if self._halted else self._broken,
            not_sent=self._halted and self._connection.num_sent == 0,
        )
        judgment = judge(transcript, ending)
        self._client.end(sent, span, transcript, judgment, abort)
        return judgment.outcome
