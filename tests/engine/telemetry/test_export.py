"""Loss is bounded and counted: full queue, refused and silent collectors, the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from engine.telemetry import export
from engine.telemetry.export import CountedBatchProcessor, CountingExporter, SpanCounts
from engine.telemetry.provider import OtlpTelemetry, Telemetry, WorkerIdentity

IDENTITY = WorkerIdentity(role="unified", worker="u0", incarnation="abc")


class GatedExporter(SpanExporter):
    """Exports once the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.names: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.gate.wait(10)
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS


def emit(telemetry: Telemetry, count: int) -> None:
    for index in range(count):
        telemetry.tracer.start_span(str(index)).end()


def test_a_full_queue_refuses_the_newest_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "QUEUE_SIZE", 600)
    counts, slow = SpanCounts(), GatedExporter()
    telemetry = Telemetry(
        IDENTITY, CountedBatchProcessor(CountingExporter(slow, counts), counts), counts
    )

    emit(telemetry, 1_000)
    assert (counts.num_emitted, counts.num_dropped, counts.num_open) == (1_000, 400, 600)

    slow.gate.set()
    telemetry.shutdown(5)
    assert (counts.num_delivered, counts.num_open) == (600, 0)
    assert sorted(map(int, slow.names)) == list(range(600))


def test_a_collector_that_refuses_costs_spans_not_time() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        telemetry = OtlpTelemetry(IDENTITY, f"http://127.0.0.1:{closed.getsockname()[1]}/v1/traces")
        emit(telemetry, 50)
        started = time.monotonic()
        telemetry.shutdown(2)
        assert time.monotonic() - started < 2.5
    assert telemetry.counts.num_dropped == 50


def test_a_silent_collector_cannot_hold_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        telemetry = OtlpTelemetry(IDENTITY, url)
        emit(telemetry, 5_000)
        started = time.monotonic()
        telemetry.shutdown(0.5)
        assert time.monotonic() - started < 1
    assert telemetry.counts.num_delivered == 0


def test_an_emitting_thread_never_waits_for_the_collector() -> None:
    counts, slow = SpanCounts(), GatedExporter()
    telemetry = Telemetry(
        IDENTITY, CountedBatchProcessor(CountingExporter(slow, counts), counts), counts
    )
    started = time.monotonic()
    emit(telemetry, 2_000)
    assert time.monotonic() - started < 2
    slow.gate.set()
    telemetry.shutdown(5)
    assert counts.num_delivered == 2_000
