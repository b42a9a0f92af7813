"""The real store process, fed by the real OpenTelemetry exporter and by hand-made requests."""

from __future__ import annotations

import gzip
import http.client
import http.server
import json
import os
import resource
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from dashboards.spans import Span, SpanLink, read_spans

WALL = 1_796_000_000_000_000_000
TRACE = "0af7651916cd43dd8448eb211c80319c"


class Collect(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: object) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS


def sdk_spans(count: int = 1) -> list[ReadableSpan]:
    """Traces of two spans each, with every kind of attribute, made by the real SDK."""
    collect = Collect()
    provider = TracerProvider(
        resource=Resource(
            {"service.name": "severance-prefill", "service.instance.id": "p0", "host.id": "a"}
        )
    )
    provider.add_span_processor(SimpleSpanProcessor(collect))
    tracer = provider.get_tracer("t")
    link = Link(SpanContext(int(TRACE, 16), 0xB7AD6B7169203331, is_remote=True))
    for index in range(count):
        with tracer.start_as_current_span(
            "request", kind=SpanKind.SERVER, attributes={"pd.rid": f"r-{index}"}
        ):
            span = tracer.start_span(
                "abort",
                links=[link],
                start_time=WALL + index,
                attributes={
                    "pd.rid": f"r-{index}",
                    "pd.room": 7_000 + index,
                    "pd.abort.reason": "peer_dead",
                    "ok": True,
                    "share": 0.25,
                    "stages": ["a", "b"],
                    "text": "ünïcode <b>\x00 end",
                },
            )
            span.set_status(Status(StatusCode.ERROR, "peer d0 is dead"))
            span.end(WALL + index + 1000)
    provider.shutdown()
    return collect.spans


def request(
    url: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request(
            method, path, body, {key.replace("_", "-"): value for key, value in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def stats(url: str) -> dict[str, int]:
    return json.loads(request(url, "GET", "/stats")[1])


def otlp_json(*spans: dict, service: str = "severance-decode") -> bytes:
    attributes = [{"key": "service.name", "value": {"stringValue": service}}]
    return json.dumps(
        {
            "resourceSpans": [
                {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": list(spans)}]}
            ]
        }
    ).encode()


def json_span(number: int = 1, **changes: object) -> dict:
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": "decode",
        "kind": 1,
        "startTimeUnixNano": str(WALL),
        "endTimeUnixNano": str(WALL + 5),
        "attributes": [{"key": "pd.rid", "value": {"stringValue": "r-1"}}],
        **changes,
    }


def post_json(url: str, body: bytes, **headers: str) -> tuple[int, dict]:
    status, answer = request(
        url, "POST", "/v1/traces", body, Content_Type="application/json", **headers
    )
    return status, json.loads(answer)


def test_spans_of_the_real_exporter_come_back_equal(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "spans.sqlite")
    sent = sdk_spans()
    exporter = OTLPSpanExporter(f"{store.url}/v1/traces")
    assert exporter.export(sent) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert stats(store.url)["spans"] == 2
    code, out, err = store.stop()
    assert (code, err) == (0, "")
    assert "kept 2 spans, dropped 0" in out

    by_name = {span.name: span for span in read_spans(tmp_path / "spans.sqlite")}
    abort, root = (
        next(span for span in sent if span.name == name) for name in ("abort", "request")
    )
    assert by_name["abort"] == Span(
        trace_id=f"{abort.context.trace_id:032x}",
        span_id=f"{abort.context.span_id:016x}",
        parent_span_id=f"{root.context.span_id:016x}",
        name="abort",
        kind="internal",
        service="severance-prefill",
        instance="p0",
        start_ns=WALL,
        end_ns=WALL + 1000,
        status="error",
        status_message="peer d0 is dead",
        attributes={
            "pd.rid": "r-0",
            "pd.room": 7000,
            "pd.abort.reason": "peer_dead",
            "ok": True,
            "share": 0.25,
            "stages": ["a", "b"],
            "text": "ünïcode <b>\x00 end",
        },
        resource=by_name["request"].resource,
        links=(SpanLink(trace_id=TRACE, span_id="b7ad6b7169203331"),),
    )
    assert by_name["request"].kind == "server"
    assert by_name["request"].parent_span_id == ""
    assert by_name["request"].status == "unset"
    assert by_name["request"].resource["host.id"] == "a"
    assert [file.name for file in tmp_path.iterdir()] == [
        "spans.sqlite"
    ]  # folded: no -wal, no -shm


def test_codes_are_columns(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    exporter = OTLPSpanExporter(f"{store.url}/v1/traces")
    exporter.export(sdk_spans())
    exporter.shutdown()
    query = "SELECT rid, room, reason FROM spans WHERE name = 'abort'"
    with sqlite3.connect(f"file:{tmp_path / 's.db'}?mode=ro", uri=True) as reader:  # while it runs
        assert reader.execute(query).fetchall() == [("r-0", "7000", "peer_dead")]
    reader.close()


def test_json_and_gzip(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    assert post_json(store.url, otlp_json(json_span(1, status={"code": 2, "message": "m"}))) == (
        200,
        {},
    )
    packed = gzip.compress(
        otlp_json(json_span(2, startTimeUnixNano=WALL + 1, kind="SPAN_KIND_SERVER"))
    )
    assert post_json(store.url, packed, Content_Encoding="gzip") == (200, {})
    store.stop()
    first, second = read_spans(tmp_path / "s.db")
    assert (first.kind, first.status, first.status_message) == ("internal", "error", "m")
    assert (second.kind, second.status, second.service) == ("server", "unset", "severance-decode")
    assert first.attributes == {"pd.rid": "r-1"}


def test_protobuf_gzip_of_the_real_exporter(start_store, tmp_path: Path) -> None:
    from opentelemetry.exporter.otlp.proto.http import Compression

    store = start_store(tmp_path / "s.db")
    exporter = OTLPSpanExporter(f"{store.url}/v1/traces", compression=Compression.Gzip)
    assert exporter.export(sdk_spans(50)) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert stats(store.url) | {"spans": 100, "dropped": 0, "malformed": 0} == stats(store.url)


def test_every_value_type_survives(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    values = {
        "int_text": ({"intValue": "-9223372036854775808"}, -(2**63)),
        "zero": ({"intValue": 0}, 0),
        "false": ({"boolValue": False}, False),
        "nan": ({"doubleValue": "NaN"}, "nan"),
        "bytes": ({"bytesValue": "AAEC"}, "AAEC"),
        "empty": ({"stringValue": ""}, ""),
        "list": ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "x"}]}}, [1, "x"]),
        "no_items": ({"arrayValue": {}}, []),
    }
    attributes = [{"key": key, "value": value} for key, (value, _) in values.items()]
    nested = {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}
    attributes.append({"key": "nested", "value": nested})
    assert post_json(store.url, otlp_json(json_span(attributes=attributes))) == (200, {})
    store.stop()
    (span,) = read_spans(tmp_path / "s.db")
    kept = dict(span.attributes)
    assert json.loads(kept.pop("nested")) == nested
    assert kept == {key: value for key, (_, value) in values.items()}


MALFORMED = {
    "no json": (b"{", "application/json", "", 400),
    "wrong type": (b'{"resourceSpans": 3}', "application/json", "", 400),
    "number that is none": (
        otlp_json(json_span(startTimeUnixNano="soon")),
        "application/json",
        "",
        400,
    ),
    "not utf-8": (otlp_json(json_span()).replace(b"decode", b"\xff"), "application/json", "", 400),
    "half a surrogate": (otlp_json(json_span(name="\ud800")), "application/json", "", 400),
    "deep": (b'{"resourceSpans":' + b"[" * 100_000, "application/json", "", 400),
    "no protobuf": (b"\xff\xff\xff\xff", "application/x-protobuf", "", 400),
    "no gzip": (b"hello", "application/json", "gzip", 400),
    "cut gzip": (gzip.compress(b"{}" * 500)[:-9], "application/json", "gzip", 400),
    "gzip and more": (gzip.compress(b"{}") + b"tail", "application/json", "gzip", 400),
    "gzip bomb": (gzip.compress(bytes(40 << 20)), "application/json", "gzip", 413),
    "brotli": (b"{}", "application/json", "br", 415),
    "text": (b"{}", "text/plain", "", 415),
}


def test_malformed_bodies_are_answered_counted_and_survived(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    for name, (body, content_type, encoding, expected) in MALFORMED.items():
        status, answer = request(
            store.url,
            "POST",
            "/v1/traces",
            body,
            Content_Type=content_type,
            Content_Encoding=encoding,
        )
        assert (name, status) == (name, expected)
        assert json.loads(answer)["message"]
    assert stats(store.url)["malformed"] == len(MALFORMED)
    assert post_json(store.url, otlp_json(json_span())) == (200, {})
    assert store.stop()[0] == 0


def raw(store, head: bytes) -> bytes:
    """Bytes that no HTTP library would send; returns all that comes back."""
    host, port = store.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b" 411 ",
        ),
        (b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b" 400 "),
        (
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
            b" 413 ",
        ),
        (b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 33554433\r\n\r\n", b" 413 "),
        (b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{}", b" 400 "),
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", b" 404 "),
        (b"\x16\x03\x01\x00\xa5\x01\x00", b""),
    ],
)
def test_bad_framing(start_store, tmp_path: Path, head: bytes, status: bytes) -> None:
    store = start_store(tmp_path / "s.db")
    answer = raw(store, head)
    assert status in answer.partition(b"\r\n")[0] or status in answer[:200]
    assert request(store.url, "GET", "/health")[0] == 200


def test_bad_spans_are_left_out_and_named(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    bad = (
        json_span(2, traceId="00" * 16),
        json_span(3, spanId="xyz"),
        json_span(4, endTimeUnixNano=str(2**63)),
        json_span(5, startTimeUnixNano=-1),
        json_span(6, parentSpanId="12"),
    )
    status, answer = post_json(store.url, otlp_json(json_span(1), *bad))
    assert status == 200
    assert answer["partialSuccess"]["rejectedSpans"] == "5"
    assert "parent span id '12'" in answer["partialSuccess"]["errorMessage"]
    assert stats(store.url) | {"spans": 1, "dropped": 5, "invalid": 5} == stats(store.url)


def test_partial_success_in_protobuf(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    export = ExportTraceServiceRequest()
    export.resource_spans.add().scope_spans.add().spans.add(
        trace_id=b"short", span_id=b"x" * 8, name="n"
    )
    status, body = request(
        store.url,
        "POST",
        "/v1/traces",
        export.SerializeToString(),
        Content_Type="application/x-protobuf",
    )
    assert status == 200
    answer = ExportTraceServiceResponse.FromString(body)
    assert answer.partial_success.rejected_spans == 1
    assert "trace id" in answer.partial_success.error_message


def test_duplicates_are_ignored_and_counted(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    post_json(store.url, otlp_json(json_span(1, name="first")))
    post_json(store.url, otlp_json(json_span(1, name="again"), json_span(2)))
    assert stats(store.url) | {"spans": 2, "duplicates": 1, "dropped": 0} == stats(store.url)
    store.stop()
    assert sorted(span.name for span in read_spans(tmp_path / "s.db")) == ["decode", "first"]


def test_burst_of_20_000_spans_from_four_senders(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    failed: list[int] = []

    def send(sender: int) -> None:
        connection = http.client.HTTPConnection(store.address, timeout=15)
        for batch in range(10):
            first = (sender * 10 + batch) * 500 + 1
            body = otlp_json(*(json_span(first + number) for number in range(500)))
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            failed.extend([answer.status] if answer.status != 200 else [])
        connection.close()

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert stats(store.url) | {"spans": 20_000, "dropped": 0} == stats(store.url)
    assert store.stop()[0] == 0
    assert len({span.span_id for span in read_spans(tmp_path / "s.db")}) == 20_000


def test_the_oldest_spans_go_beyond_the_limit(start_store, tmp_path: Path) -> None:
    """A store that runs for weeks must not fill the disk."""
    store = start_store(tmp_path / "s.db", "--max-spans", "200")
    for first in range(1, 3_001, 50):
        spans = (json_span(first + number) for number in range(50))
        assert post_json(store.url, otlp_json(*spans))[0] == 200
    counts = stats(store.url)
    assert store.stop()[0] == 0
    kept = [int(span.span_id, 16) for span in read_spans(tmp_path / "s.db")]
    assert 150 <= len(kept) <= 200
    assert sorted(kept) == list(range(3_001 - len(kept), 3_001)), "the newest stay"
    assert counts["spans"] - counts["forgotten"] == len(kept)
    assert (tmp_path / "s.db").stat().st_size < 500_000, "the space is used again"


def test_a_limit_that_is_no_count_is_usage(severance, tmp_path: Path) -> None:
    done = severance("spanstore", "--db", str(tmp_path / "s.db"), "--max-spans", "0")
    assert done.returncode == 2
    assert "is no count" in done.stderr


def test_sigkill_keeps_everything_that_was_acknowledged(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    acknowledged: list[int] = []
    half = threading.Event()

    def send() -> None:
        for number in range(1, 100_000):
            try:
                status, _ = post_json(store.url, otlp_json(json_span(number)))
            except (OSError, http.client.HTTPException, ValueError):
                return
            acknowledged.extend([number] if status == 200 else [])
            if number == 40:
                half.set()

    sender = threading.Thread(target=send)
    sender.start()
    assert half.wait(15)
    store.stop(signal.SIGKILL)
    sender.join()
    kept = {int(span.span_id, 16) for span in read_spans(tmp_path / "s.db")}
    assert kept >= set(acknowledged)
    assert len(acknowledged) >= 40
    reopened = start_store(tmp_path / "s.db")  # and a new store goes on with it
    post_json(reopened.url, otlp_json(json_span(500_000)))
    reopened.stop()
    assert 500_000 in {int(span.span_id, 16) for span in read_spans(tmp_path / "s.db")}


def process_is_gone(pid: int, within_s: float) -> bool:
    """Waits on the process itself, child or not."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)


PARENT = """
import subprocess, sys, threading
store = subprocess.Popen([sys.executable, "-c", sys.argv[1], "spanstore", "--db", sys.argv[2], "--port", "0"],
                         stdout=subprocess.PIPE, text=True)
print(store.pid, store.stdout.readline().strip(), flush=True)
threading.Event().wait()
"""


def test_the_store_ends_when_its_parent_is_killed(tmp_path: Path, command: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, command, str(tmp_path / "s.db")],
        stdout=subprocess.PIPE,
        text=True,
    )
    pid, _, line = parent.stdout.readline().partition(" ")
    url = f"http://{line.split()[-1]}"
    post_json(url, otlp_json(json_span()))
    parent.kill()
    parent.communicate()
    assert process_is_gone(int(pid), within_s=5)
    assert len(list(read_spans(tmp_path / "s.db"))) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]  # it flushed and closed


def test_the_store_survives_the_thread_that_started_it(tmp_path: Path, start_store) -> None:
    stores = []
    starter = threading.Thread(target=lambda: stores.append(start_store(tmp_path / "s.db")))
    starter.start()
    starter.join()  # the kernel sends the parent-death signal now
    assert not process_is_gone(stores[0].pid, within_s=1.2)
    assert request(stores[0].url, "GET", "/health")[0] == 200


def test_a_parent_that_is_already_gone(severance, tmp_path: Path) -> None:
    """The runner died while the store was starting: it passed its own pid, which is not the parent."""
    done = severance(
        "spanstore", "--db", str(tmp_path / "s.db"), "--port", "0", "--parent-pid", "4000000"
    )
    assert done.returncode == 0
    assert "kept 0 spans" in done.stdout


def test_full_disk_is_said_on_health_and_at_the_end(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    post_json(store.url, otlp_json(json_span(1)))
    limit = sum(
        file.stat().st_size for file in tmp_path.iterdir() if not file.name.endswith("-shm")
    )
    resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    big = [json_span(number, name="x" * 5000) for number in range(2, 60)]
    status, answer = post_json(store.url, otlp_json(*big))
    assert status == 503
    assert "cannot be written" in answer["message"]
    status, body = request(store.url, "GET", "/health")
    assert status == 503
    assert json.loads(body)["status"] == "failing"
    assert stats(store.url)["dropped"] == 58

    resource.prlimit(
        store.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    assert post_json(store.url, otlp_json(*big))[0] == 200  # the sender's retry, with space again
    assert request(store.url, "GET", "/health")[0] == 200
    assert store.stop()[0] == 0
    assert len(list(read_spans(tmp_path / "s.db"))) == 59


def test_full_disk_until_the_end_exits_1(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    resource.prlimit(store.pid, resource.RLIMIT_FSIZE, (1, 1))
    assert post_json(store.url, otlp_json(json_span(1)))[0] == 503
    code, _, err = store.stop()
    assert code == 1
    assert "free some space" in err


@pytest.mark.parametrize("case", ["directory", "missing", "text"])
def test_unusable_database(severance, tmp_path: Path, case: str) -> None:
    path = {"directory": tmp_path, "missing": tmp_path / "no" / "s.db", "text": tmp_path / "t"}[
        case
    ]
    (tmp_path / "t").write_text("this is no database, but long enough to be read as one" * 40)
    done = severance("spanstore", "--db", str(path), "--port", "0")
    assert done.returncode == 1
    assert done.stderr.startswith(f"severance spanstore: --db {path}: ")
    assert "writable" in done.stderr
    assert done.stdout == ""


def test_port_in_use(severance, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = severance("spanstore", "--db", str(tmp_path / "s.db"), "--port", port)
    assert done.returncode == 1
    assert f"--port {port}: cannot listen" in done.stderr
    assert "--port 0" in done.stderr


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_bad_port_is_usage(severance, tmp_path: Path, port: str) -> None:
    done = severance("spanstore", "--db", str(tmp_path / "s.db"), f"--port={port}")
    assert done.returncode == 2
    assert "is no port" in done.stderr


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:4318", "http://", "http://h:99999"])
def test_bad_forward_is_usage(severance, tmp_path: Path, url: str) -> None:
    done = severance("spanstore", "--db", str(tmp_path / "s.db"), "--port", "0", "--forward", url)
    assert done.returncode == 2
    assert f"--forward {url}" in done.stderr


class Backend(http.server.ThreadingHTTPServer):
    """Another OTLP backend; keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), BackendHandler)
        self.got: list[tuple[str, str, str, bytes]] = []
        self.arrived = threading.Semaphore(0)


class BackendHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(
            (
                self.path,
                self.headers["Content-Type"],
                self.headers.get("Content-Encoding", ""),
                body,
            )
        )
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.arrived.release()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def backend() -> Iterator[Backend]:
    with Backend() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_forward_sends_bodies_on_as_they_came(
    start_store, tmp_path: Path, backend: Backend
) -> None:
    store = start_store(tmp_path / "s.db", "--forward", f"http://127.0.0.1:{backend.server_port}")
    plain, packed = otlp_json(json_span(1)), gzip.compress(otlp_json(json_span(2)))
    post_json(store.url, plain)
    post_json(store.url, packed, Content_Encoding="gzip")
    post_json(store.url, b"{")  # not sent on
    assert backend.arrived.acquire(timeout=10)
    assert backend.arrived.acquire(timeout=10)
    assert backend.got == [
        ("/v1/traces", "application/json", "", plain),
        ("/v1/traces", "application/json", "gzip", packed),
    ]
    assert store.stop()[0] == 0


def test_dead_backend_costs_counted_drops_and_no_time(start_store, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:  # accepts, never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        store = start_store(tmp_path / "s.db", "--forward", url)
        started = time.monotonic()
        for number in range(1, 21):
            assert post_json(store.url, otlp_json(json_span(number)))[0] == 200
        assert time.monotonic() - started < 1.5  # one wait for the backend would be 2 s
        assert stats(store.url)["spans"] == 20
        started = time.monotonic()
        assert store.stop()[0] == 0
        assert time.monotonic() - started < 4


def test_refused_backend_is_counted(start_store, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
    store = start_store(tmp_path / "s.db", "--forward", url)
    post_json(store.url, otlp_json(json_span(1), json_span(2)))
    deadline = time.monotonic() + 10
    while stats(store.url)["forward_dropped"] != 2 and time.monotonic() < deadline:
        pass
    assert stats(store.url) | {"forwarded": 0, "forward_dropped": 2, "dropped": 0} == stats(
        store.url
    )


def test_unknown_path_says_what_there_is(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    status, body = request(store.url, "GET", "/metrics")
    assert status == 404
    assert "POST /v1/traces" in json.loads(body)["message"]


def test_sigterm_while_senders_are_connected(start_store, tmp_path: Path) -> None:
    store = start_store(tmp_path / "s.db")
    idle = http.client.HTTPConnection(store.address, timeout=10)
    idle.request(
        "POST", "/v1/traces", otlp_json(json_span(1)), {"Content-Type": "application/json"}
    )
    idle.getresponse().read()  # kept alive, with nothing to say
    started = time.monotonic()
    assert store.stop()[0] == 0
    assert time.monotonic() - started < 3
    idle.close()
    assert len(list(read_spans(tmp_path / "s.db"))) == 1
