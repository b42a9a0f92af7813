"""A span as the span store keeps it, and how to read a run's `spans.sqlite`.

Times are Unix nanoseconds. ``pd.*`` codes are also columns, so that a search is one SQL statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

Scalar = str | int | float | bool
AttributeValue = Scalar | list[Scalar]

SCHEMA = """
CREATE TABLE IF NOT EXISTS spans (
  trace_id TEXT NOT NULL, span_id TEXT NOT NULL, parent_span_id TEXT NOT NULL, name TEXT NOT NULL,
  kind TEXT NOT NULL, service TEXT NOT NULL, instance TEXT NOT NULL, start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL, status TEXT NOT NULL, status_message TEXT NOT NULL,
  rid TEXT, room TEXT, reason TEXT, attributes TEXT NOT NULL, resource TEXT NOT NULL,
  links TEXT NOT NULL, PRIMARY KEY (trace_id, span_id));
CREATE INDEX IF NOT EXISTS spans_rid ON spans (rid);
CREATE INDEX IF NOT EXISTS spans_name ON spans (name);
"""


class SpanLink(msgspec.Struct, frozen=True, kw_only=True):
    trace_id: str
    span_id: str


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """``status``: unset | ok | error. ``parent_span_id`` is empty on a root."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: str
    service: str
    instance: str
    start_ns: int
    end_ns: int
    status: str
    status_message: str
    attributes: dict[str, AttributeValue]
    resource: dict[str, AttributeValue]
    links: tuple[SpanLink, ...] = ()

    def text(self, key: str) -> str | None:
        """An attribute as text; None if absent."""
        value = self.attributes.get(key)
        return None if value is None else str(value)


_COLUMNS = (
    "trace_id, span_id, parent_span_id, name, kind, service, instance, start_ns, end_ns, status,"
    " status_message, attributes, resource, links"
)
_ATTRIBUTES = msgspec.json.Decoder(dict[str, AttributeValue])
_LINKS = msgspec.json.Decoder(tuple[SpanLink, ...])


def _from_row(row: tuple[object, ...]) -> Span:
    *plain, attributes, resource, links = row
    names = _COLUMNS.replace(" ", "").split(",")
    return msgspec.convert(
        {
            **dict(zip(names, plain, strict=False)),
            "attributes": _ATTRIBUTES.decode(str(attributes)),
            "resource": _ATTRIBUTES.decode(str(resource)),
            "links": _LINKS.decode(str(links)),
        },
        Span,
    )


def read_spans(path: Path) -> Iterator[Span]:
    """All spans of a run, by start time. Opens the database read-only."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        for row in connection.execute(f"SELECT {_COLUMNS} FROM spans ORDER BY start_ns"):
            yield _from_row(row)
    finally:
        connection.close()
