"""One `fault` span for each fault, sent to the run's span store after the heal."""

from __future__ import annotations

import socket

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

from chaos.fault_step import FaultTimes
from chaos.faults.base import Fault

_EXPORT_WITHIN_S = 2.0


class FaultSpans:
    """Blocking and bounded; a span store that is down costs ``_EXPORT_WITHIN_S`` a fault, no more."""

    def __init__(self, traces_url: str, run_id: str) -> None:
        host = socket.gethostname()
        self._run_id = run_id
        self._session = requests.Session()
        self._session.trust_env = False
        self._provider = TracerProvider(
            resource=Resource(
                {
                    "service.name": "severance-chaos",
                    "service.instance.id": "runner",
                    "host.id": host,
                    "ip": "127.0.0.1",
                }
            ),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(traces_url, timeout=_EXPORT_WITHIN_S, session=self._session)
        self._provider.add_span_processor(SimpleSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("severance.chaos")

    def send(self, fault: Fault, times: FaultTimes) -> None:
        span = self._tracer.start_span(
            "fault",
            kind=SpanKind.INTERNAL,
            start_time=times.injected_wall_ns,
            attributes={
                "pd.fault.id": times.fault_id,
                "pd.fault.kind": fault.declaration.kind,
                "pd.fault.mode": fault.declaration.mode,
                "pd.links": list(fault.links),
                "pd.workers": list(fault.workers),
                "pd.run_id": self._run_id,
            },
        )
        span.end(times.healed_wall_ns)

    def close(self) -> None:
        self._provider.shutdown()
        self._session.close()
