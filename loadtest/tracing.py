"""The root span of every request, sent over OTLP/HTTP beside the load.

Threads of the SDK are greenlets here (gevent has patched threading), so the exporter shares the one core with
the load: batches are small, its calls are bounded, and a dead collector costs spans, never requests.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import uuid
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from loadtest.history import Outcome, Sent
from loadtest.outcome import ABORTED_BY_CLIENT, Judgment

_QUEUE_SIZE = 65536
_DELAY_MS = 200
_BATCH_SIZE = 64
_CALL_TIMEOUT_S = 1.0
_SHUTDOWN_S = 2.5
_CLIENT_REASON = {
    Outcome.ABORTED_DISCONNECT: "client_disconnect",
    Outcome.ABORTED_RID: "client_abort",
    Outcome.ABORTED_DEADLINE: "deadline",
}


class _RandomIds(IdGenerator):
    """Ids from the operating system: the SDK's own generator repeats after ``random.seed``."""

    def generate_span_id(self) -> int:
        return int.from_bytes(os.urandom(8), "big") or 1

    def generate_trace_id(self) -> int:
        return int.from_bytes(os.urandom(16), "big") or 1


class _CountingExporter(SpanExporter):
    """Says how many spans did not arrive, instead of a log line for each batch."""

    def __init__(self, endpoint: str) -> None:
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=_CALL_TIMEOUT_S)
        self.num_exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.num_exported += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class RequestSpan:
    """The span ``request`` of kind CLIENT; its ids go out in ``traceparent``."""

    def __init__(self, span: Span, start_ns: int) -> None:
        self._span = span
        self._start_ns = start_ns
        context = span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}"
        self.traceparent = f"00-{self.trace_id}-{context.span_id:016x}-01"

    def end(
        self, sent: Sent, end_ns: int, judgment: Judgment | None, num_tokens: int, seq: int
    ) -> None:
        """``judgment`` None: the request hung. ``end_ns`` is CLOCK_MONOTONIC, as in ``sent``."""
        span = self._span
        span.set_attributes(
            {
                "pd.outcome": _outcome(judgment),
                "pd.seq": seq,
                "gen_ai.usage.output_tokens": num_tokens,
                "pd.send_lag_ms": (sent.sent_ns - sent.scheduled_ns) / 1e6,
            }
        )
        if judgment is None:
            self._fail("timeout", "no answer within the request timeout")
        else:
            span.set_attributes(_abort_attributes(judgment))
            self._set_status(judgment)
        span.end(self._start_ns + end_ns - sent.sent_ns)

    def _set_status(self, judgment: Judgment) -> None:
        """A client's own cancel stays UNSET (DESIGN 3)."""
        if judgment.outcome is Outcome.ABORTED_SERVER:
            reason = judgment.abort.reason if judgment.abort else None
            self._fail(reason or judgment.outcome, judgment.message)
        elif judgment.outcome is not Outcome.COMPLETED and not _is_own(judgment):
            self._fail(judgment.outcome, judgment.message)

    def _fail(self, error_type: str, message: str | None) -> None:
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR, message))


class Tracing:
    """Makes the spans; sends them if there is an ``endpoint`` (the whole URL, with /v1/traces)."""

    def __init__(self, endpoint: str | None, run_id: str) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=_resource(run_id),
            shutdown_on_exit=False,
            id_generator=_RandomIds(),
        )
        self._exporter = _CountingExporter(endpoint) if endpoint else None
        self._processor: BatchSpanProcessor | None = None
        if self._exporter:
            self._processor = BatchSpanProcessor(
                self._exporter,
                max_queue_size=_QUEUE_SIZE,
                schedule_delay_millis=_DELAY_MS,
                max_export_batch_size=_BATCH_SIZE,
            )
            self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("severance.loadtest")
        self.num_ended = 0

    def start(self, rid: str, isl: int, wall_ns: int) -> RequestSpan:
        span = self._tracer.start_span(
            "request",
            context=Context(),
            kind=SpanKind.CLIENT,
            start_time=wall_ns,
            attributes={
                "pd.rid": rid,
                "pd.role": "load",
                "gen_ai.operation.name": "text_completion",
                "gen_ai.usage.input_tokens": isl,
            },
        )
        return RequestSpan(span, wall_ns)

    def end(
        self, span: RequestSpan, sent: Sent, end_ns: int, judgment: Judgment | None, num_tokens: int
    ) -> None:
        """Numbers the span, so that a gap in the store is known to be one."""
        self.num_ended += 1
        span.end(sent, end_ns, judgment, num_tokens, self.num_ended)

    @property
    def num_dropped(self) -> int:
        """Spans that have not reached the endpoint (after `shutdown`: that never will)."""
        return self.num_ended - self._exporter.num_exported if self._exporter else 0

    def shutdown(self) -> None:
        """Send what is queued; returns after 2.5 s at most, whatever the collector does."""
        if self._processor is None:
            return
        # The SDK's own shutdown may block for 30 s on a dead collector, so it runs beside this one.
        stopping = threading.Thread(target=self._processor.shutdown, daemon=True)
        stopping.start()
        stopping.join(_SHUTDOWN_S)


def _outcome(judgment: Judgment | None) -> str:
    if judgment is None:
        return "failed"
    if judgment.outcome is Outcome.COMPLETED:
        return "completed"
    is_abort = _is_own(judgment) or judgment.outcome is Outcome.ABORTED_SERVER
    return "aborted" if is_abort else "failed"


def _is_own(judgment: Judgment) -> bool:
    return judgment.outcome in ABORTED_BY_CLIENT


def _abort_attributes(judgment: Judgment) -> dict[str, str]:
    """Codes of the abort. Where the client cannot know one (the stage of a disconnect), it is absent."""
    attributes: dict[str, str | None] = {}
    if judgment.abort is not None:
        attributes = {
            "pd.abort.reason": judgment.abort.reason,
            "pd.abort.origin": judgment.abort.origin,
            "pd.abort.stage": judgment.abort.stage,
        }
    if _is_own(judgment):
        attributes |= {
            "pd.abort.reason": _CLIENT_REASON[judgment.outcome],
            "pd.abort.origin": "client",
            "pd.abort.via": "local",
        }
    return {name: value for name, value in attributes.items() if value is not None}


def _resource(run_id: str) -> Resource:
    host = f"{platform.node()}-{uuid.getnode():012x}"
    return Resource.create(
        {
            "service.name": "severance-load",
            "service.instance.id": "load",
            "service.instance.incarnation": os.urandom(8).hex(),
            "host.id": host,
            "ip": host,  # Jaeger adjusts clocks unless both name the same host as the workers' spans
            "pd.run_id": run_id,
        }
    )
