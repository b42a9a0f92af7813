"""`severance export`: a run's traces, or its verdict, as one document for somebody else's viewer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from dashboards.ctk_journal import read_journal
from dashboards.jaeger import JaegerDocument, to_jaeger
from dashboards.otlp import TracesData
from dashboards.otlp_export import to_otlp
from dashboards.run_dir import require_run, require_spans
from dashboards.spans import Span
from dashboards.where import parse_where, select


class ExportFormat(StrEnum):
    JAEGER = "jaeger"
    OTLP = "otlp"
    CHAOSTOOLKIT = "chaostoolkit"


class Export(NamedTuple):
    """``document``: UTF-8 JSON. ``traces``: how many it holds."""

    document: bytes
    traces: int


def export_run(run: Path, format: ExportFormat, where: tuple[str, ...] = ()) -> Export:
    """The traces of ``run`` that match every ``key=value`` of ``where``. Raises `DashboardError`."""
    require_run(run)
    if format is ExportFormat.CHAOSTOOLKIT:
        return Export(msgspec.json.encode(read_journal(run)), 0)
    conditions = tuple(parse_where(text) for text in where)
    spans = select(require_spans(run), conditions)
    document = msgspec.json.encode(_document(spans, format))
    return Export(document, len({span.trace_id for span in spans}))


def _document(spans: list[Span], format: ExportFormat) -> JaegerDocument | TracesData:
    return to_jaeger(spans) if format is ExportFormat.JAEGER else to_otlp(spans)
