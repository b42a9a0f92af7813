"""Span export that never slows the engine: bounded queue, short calls, every lost span counted.

`SpanCounts` is the one account: a span is emitted once and settled once (delivered or dropped), so
what is missing is known and never guessed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

QUEUE_SIZE = 65_536
BATCH_SIZE = 512
DELAY_MS = 200
EXPORT_TIMEOUT_S = 1.0

logger = logging.getLogger(__name__)


class SpanCounts:
    """Spans emitted, delivered and dropped, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.num_emitted = 0
        self.num_delivered = 0
        self.num_dropped = 0

    @property
    def num_open(self) -> int:
        """Emitted, and neither delivered nor dropped yet."""
        return self.num_emitted - self.num_delivered - self.num_dropped

    def emit(self) -> None:
        with self._lock:
            self.num_emitted += 1

    def deliver(self, count: int) -> None:
        with self._lock:
            self.num_delivered += count

    def drop(self, count: int) -> None:
        with self._lock:
            self.num_dropped += count


class CountingExporter(SpanExporter):
    """Counts what the inner exporter delivers, says once when the collector fails and recovers.

    After `close_at` every batch is refused at once, so that the worker thread ends in time.
    """

    def __init__(self, inner: SpanExporter, counts: SpanCounts) -> None:
        self._inner = inner
        self._counts = counts
        self._failing = False
        self._deadline = float("inf")

    def close_at(self, deadline: float) -> None:
        """Refuse batches from ``time.monotonic() == deadline`` on."""
        self._deadline = deadline

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        late = time.monotonic() >= self._deadline
        result = SpanExportResult.FAILURE if late else self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._counts.deliver(len(spans))
        else:
            self._counts.drop(len(spans))
        self._note(result is not SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)

    def _note(self, failed: bool) -> None:
        if failed and not self._failing:
            logger.warning("the trace collector does not answer; spans are dropped and counted")
        elif self._failing and not failed:
            logger.info("the trace collector answers again")
        self._failing = failed


class CountedBatchProcessor(BatchSpanProcessor):
    """The SDK's batch processor with a known drop: a full queue refuses the newest span.

    The SDK alone would push out the oldest and only log it.
    """

    def __init__(self, exporter: CountingExporter, counts: SpanCounts) -> None:
        super().__init__(
            exporter,
            max_queue_size=QUEUE_SIZE,
            schedule_delay_millis=DELAY_MS,
            max_export_batch_size=BATCH_SIZE,
        )
        self._counts = counts

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        full = self._counts.num_open >= QUEUE_SIZE
        self._counts.emit()
        if full:
            self._counts.drop(1)
        else:
            super().on_end(span)
