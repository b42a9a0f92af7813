"""The one thread that writes `spans.sqlite`: everything that waits goes into one transaction.

A sender is answered after its commit, so what was acknowledged survives SIGKILL of the store.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from dashboards.errors import DatabaseUnwritable
from dashboards.spans import SCHEMA, Span
from dashboards.spanstore.tally import Tally

MAX_WAITING = 128
MAX_TRANSACTION_SPANS = 20_000
BUSY_TIMEOUT_S = 5.0

_INSERT = """
INSERT OR IGNORE INTO spans (trace_id, span_id, parent_span_id, name, kind, service, instance,
  start_ns, end_ns, status, status_message, rid, room, reason, attributes, resource, links)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_DELETE_OLDEST = """
DELETE FROM spans WHERE rowid IN (SELECT rowid FROM spans ORDER BY rowid LIMIT ?)
"""
Row = tuple[str | int | None, ...]
_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class WriteJob:
    """Spans of one request; ``error`` is set before ``done``."""

    rows: list[Row]
    done: threading.Event = field(default_factory=threading.Event)
    error: str | None = None


class SpanWriter:
    """Owns the connection. ``submit`` may be called from any thread."""

    def __init__(self, path: Path, tally: Tally, max_spans: int | None = None) -> None:
        """Opens or creates the database. Raises `DatabaseUnwritable`.

        ``max_spans``: beyond so many the oldest go, a tenth of them at a time; None keeps all.
        """
        self._connection = _open(path)
        self._tally = tally
        self._max_spans = max_spans
        self._num_rows: int = self._connection.execute("SELECT COUNT(*) FROM spans").fetchone()[0]
        self._jobs: queue.Queue[WriteJob | None] = queue.Queue(maxsize=MAX_WAITING)
        self._failing: str | None = None
        self._thread = threading.Thread(target=self._run, name="span-writer", daemon=True)
        self._thread.start()

    @property
    def failing(self) -> str | None:
        """Why the last transaction failed; None while all is well."""
        return self._failing

    def submit(self, spans: list[Span]) -> str | None:
        """Wait until ``spans`` are committed; returns what went wrong, None if nothing did."""
        job = WriteJob(rows_of(spans))
        self._jobs.put(job)
        job.done.wait()
        return job.error

    def close(self) -> str | None:
        """Write what waits, fold the log into the database file; returns what went wrong."""
        self._jobs.put(None)
        self._thread.join()
        try:
            # Back from WAL: one plain file, readable also from a read-only directory.
            self._connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            self._failing = self._failing or str(error)
        self._connection.close()
        return self._failing

    def _run(self) -> None:
        while True:
            jobs, last = self._gather()
            if jobs:
                self._commit(jobs)
            if last:
                return

    def _gather(self) -> tuple[list[WriteJob], bool]:
        """Block for one job, then take all that wait, up to one transaction's worth."""
        jobs: list[WriteJob] = []
        count = 0
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            count += len(job.rows)
            if count >= MAX_TRANSACTION_SPANS:
                return jobs, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _commit(self, jobs: list[WriteJob]) -> None:
        rows = [row for job in jobs for row in job.rows]
        try:
            inserted = self._insert(rows)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self._failing = str(error)
            self._tally.add(unwritten=len(rows))
        else:
            self._failing = None
            self._tally.add(spans=inserted, duplicates=len(rows) - inserted)
            self._num_rows += inserted
            self._forget_oldest()
        for job in jobs:
            job.error = self._failing
            job.done.set()

    def _forget_oldest(self) -> None:
        """The space is used again, so the file grows no further."""
        if self._max_spans is None or self._num_rows <= self._max_spans:
            return
        excess = self._num_rows - self._max_spans + self._max_spans // 10
        try:
            with self._connection:
                self._connection.execute(_DELETE_OLDEST, (excess,))
        except sqlite3.Error as error:
            self._failing = str(error)
            return
        self._num_rows -= excess
        self._tally.add(forgotten=excess)

    def _insert(self, rows: list[Row]) -> int:
        before = self._connection.total_changes
        with self._connection:  # commits, or rolls back
            self._connection.executemany(_INSERT, rows)
        return self._connection.total_changes - before


def rows_of(spans: list[Span]) -> list[Row]:
    """Spans as table rows. A resource is encoded once for its run of spans."""
    rows: list[Row] = []
    resource, encoded = None, ""
    for span in spans:
        if span.resource is not resource:
            resource, encoded = span.resource, _ENCODER.encode(span.resource).decode()
        rows.append(_row(span, encoded))
    return rows


def _row(span: Span, resource: str) -> Row:
    return (
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.name,
        span.kind,
        span.service,
        span.instance,
        span.start_ns,
        span.end_ns,
        span.status,
        span.status_message,
        span.text("pd.rid"),
        span.text("pd.room"),
        span.text("pd.abort.reason"),
        _ENCODER.encode(span.attributes).decode(),
        resource,
        _ENCODER.encode(span.links).decode() if span.links else "[]",
    )


def _open(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    except sqlite3.Error as error:
        raise DatabaseUnwritable(path, str(error)) from error
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.executescript(SCHEMA)
    except sqlite3.Error as error:
        connection.close()
        raise DatabaseUnwritable(path, str(error)) from error
    return connection
