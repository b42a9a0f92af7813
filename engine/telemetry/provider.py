"""`Telemetry`: one process's tracer, its clock offset, its span numbers and its bounded end."""

from __future__ import annotations

import itertools
import logging
import platform
import threading
import time
import uuid

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from engine.telemetry.export import (
    EXPORT_TIMEOUT_S,
    CountedBatchProcessor,
    CountingExporter,
    SpanCounts,
)
from engine.telemetry.ids import UrandomIdGenerator

# The exporter logs every failed batch with a guess at the cause; `CountingExporter` says it once.
logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").setLevel(
    logging.CRITICAL
)
logger = logging.getLogger(__name__)


class WorkerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends the spans. ``role``: unified, prefill or decode."""

    role: str
    worker: str
    incarnation: str


def host_id() -> str:
    """One string per host; Jaeger's two clock-skew adjusters want it as ``host.id`` and as ``ip``."""
    return f"{platform.node()}-{uuid.getnode():012x}"


def make_resource(identity: WorkerIdentity) -> Resource:
    """Resource attributes: one service a role, one instance a worker, one incarnation a process."""
    host = host_id()
    return Resource.create(
        {
            "service.name": f"severance-{identity.role}",
            "service.instance.id": identity.worker,
            "service.instance.incarnation": identity.incarnation,
            "host.id": host,
            "ip": host,
        }
    )


class Telemetry:
    """The tracer of one process. Without a processor nothing is recorded and `enabled` is False."""

    def __init__(
        self, identity: WorkerIdentity, processor: SpanProcessor | None, counts: SpanCounts
    ) -> None:
        self.identity = identity
        self.counts = counts
        self.enabled = processor is not None
        self._provider = TracerProvider(
            resource=make_resource(identity),
            id_generator=UrandomIdGenerator(),
            shutdown_on_exit=False,
        )
        if processor is not None:
            self._provider.add_span_processor(processor)
        self.tracer = self._provider.get_tracer("severance.engine")
        self._sequence = itertools.count()
        # One pair a process, so that spans of one worker keep their monotonic order and lengths.
        self._wall_offset_ns = time.time_ns() - time.monotonic_ns()

    def wall_ns(self, monotonic_ns: int) -> int:
        """Unix nanoseconds of a CLOCK_MONOTONIC stamp."""
        return monotonic_ns + self._wall_offset_ns

    def next_seq(self) -> int:
        """Number of the next span of this process: a gap at the reader is a lost span."""
        return next(self._sequence)

    def shutdown(self, timeout_s: float) -> None:
        """Send what is queued, for ``timeout_s`` at the most; what is left counts as dropped."""
        ending = threading.Thread(target=self._provider.shutdown, name="span-shutdown", daemon=True)
        ending.start()
        ending.join(timeout_s)
        if ending.is_alive():
            logger.warning("%d spans were not sent in %.1f s", self.counts.num_open, timeout_s)


class OtlpTelemetry(Telemetry):
    """Sends spans to an OTLP/HTTP endpoint (``http://host:port/v1/traces``)."""

    def __init__(self, identity: WorkerIdentity, endpoint: str) -> None:
        counts = SpanCounts()
        inner = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)
        self._exporter = CountingExporter(inner, counts)
        super().__init__(identity, CountedBatchProcessor(self._exporter, counts), counts)

    def shutdown(self, timeout_s: float) -> None:
        self._exporter.close_at(time.monotonic() + timeout_s)
        super().shutdown(timeout_s)


def make_telemetry(identity: WorkerIdentity, endpoint: str | None) -> Telemetry:
    """Telemetry to ``endpoint``, or telemetry that records nothing."""
    return (
        OtlpTelemetry(identity, endpoint) if endpoint else Telemetry(identity, None, SpanCounts())
    )
