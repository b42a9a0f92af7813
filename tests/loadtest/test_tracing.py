"""Client spans over OTLP/HTTP: the right ids and codes, and no harm from a collector that is down."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

if TYPE_CHECKING:
    from tests.loadtest.conftest import LoadResult, StubProcess


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def attributes(span: Span) -> dict[str, object]:
    return {
        item.key: getattr(item.value, str(item.value.WhichOneof("value")))
        for item in span.attributes
    }


def test_root_spans(
    collector: Collector,
    stub: Callable[..., StubProcess],
    load: Callable[..., LoadResult],
    tmp_path: Path,
) -> None:
    server = stub("--mode", "normal,http_abort,reset,hang", "--itl-ms", "10")
    mix = [
        {"kind": "disconnect", "after_ms": [30, 90]},
        {"kind": "rid", "after_tokens": [1, 1]},
    ]
    (tmp_path / "mix.json").write_text(json.dumps(mix))
    result = load(
        *("--url", server.url, "--request-rate", "20", "--num-prompts", "24", "--seed", "1"),
        *("--abort-mix", str(tmp_path / "mix.json"), "--abort-share", "0.6"),
        *("--request-timeout", "2", "--otlp-traces-endpoint", collector.endpoint),
    )
    assert result.code == 0, result.stderr
    sent, ends = result.records()
    spans = {attributes(span)["pd.rid"]: span for span in collector.spans()}
    assert len(collector.spans()) == len(spans) == len(sent) == 24
    calls = {call["rid"]: call for call in server.events("generate")}
    for rid, span in spans.items():
        assert (span.name, span.kind) == ("request", Span.SPAN_KIND_CLIENT)
        assert not span.parent_span_id
        assert not span.links
        assert span.trace_id.hex() == sent[rid].trace_id
        ids = f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"
        assert calls[rid]["traceparent"] == ids
        assert span.start_time_unix_nano == sent[rid].wall_ns
        _check_outcome(span, ends.get(rid))
    numbers = sorted(attributes(span)["pd.seq"] for span in spans.values())
    assert numbers == list(range(1, 25))
    assert len({outcome for end in ends.values() for outcome in [end.outcome]}) >= 5
    assert result.summary()["spans_dropped"] == 0
    [resource] = {
        tuple((item.key, item.value.string_value) for item in part.resource.attributes)
        for request in collector.requests
        for part in request.resource_spans
    }
    named = dict(resource)
    assert named["service.name"] == "severance-load"
    assert named["host.id"] == named["ip"]
    assert named["service.instance.incarnation"]


def _check_outcome(span: Span, end: object) -> None:
    seen = attributes(span)
    if end is None:
        assert (seen["pd.outcome"], seen["error.type"]) == ("failed", "timeout")
        return
    assert span.end_time_unix_nano == end.wall_ns
    assert seen["gen_ai.usage.output_tokens"] == end.osl
    expected = {
        "completed": ("completed", None, Status.STATUS_CODE_UNSET, None),
        "aborted_disconnect": ("aborted", "client_disconnect", Status.STATUS_CODE_UNSET, None),
        "aborted_rid": ("aborted", "client_abort", Status.STATUS_CODE_UNSET, None),
        "aborted_server": ("aborted", "peer_dead", Status.STATUS_CODE_ERROR, "peer_dead"),
        "conn_error": ("failed", None, Status.STATUS_CODE_ERROR, "conn_error"),
    }[end.outcome]
    outcome, reason, status, error_type = expected
    assert seen["pd.outcome"] == outcome
    assert seen.get("pd.abort.reason") == reason
    assert seen.get("error.type") == error_type
    assert span.status.code == status


def test_a_collector_that_never_answers_costs_spans_only(
    stub: Callable[..., StubProcess], load: Callable[..., LoadResult]
) -> None:
    server = stub("--itl-ms", "0")
    options = ("--url", server.url, "--request-rate", "40", "--num-prompts", "40")
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        result = load(*options, "--otlp-traces-endpoint", endpoint)
        ended = time.monotonic_ns()
    assert result.code == 0, result.stderr
    _, ends = result.records()
    assert {end.outcome for end in ends.values()} == {"completed"}
    assert len(ends) == result.summary()["spans_dropped"] == 40
    last_ns = max(end.end_ns for end in ends.values())
    assert (ended - last_ns) / 1e9 < 4.5, "shutdown is bounded (2.5 s, and the end of the process)"
    assert result.stderr.count("\n") < 10, "a dead collector does not flood the log"
