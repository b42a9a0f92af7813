"""A worker process under test, an HTTP client of a few lines, and an OTLP collector."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

ROOT = Path(__file__).resolve().parents[3]
Json = dict[str, Any]


def script(**fields: object) -> str:
    """A prompt that steers the scripted scheduler."""
    return json.dumps(fields)


def wait_until(happened: object, timeout_s: float = 5.0) -> Any:
    """Poll ``happened()`` until it is true; its value."""
    assert callable(happened)
    deadline = time.monotonic() + timeout_s
    while not (value := happened()):
        assert time.monotonic() < deadline, f"{happened} did not come true in {timeout_s} s"
        time.sleep(0.01)
    return value


class Answer:
    """Status, headers and body of one HTTP exchange."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Json:
        value: Json = json.loads(self.body)
        return value

    @property
    def events(self) -> list[Json]:
        """The SSE events, which must end in [DONE]."""
        *events, done, empty = self.body.decode().split("\n\n")
        assert (done, empty) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]


class HttpClient:
    """Calls one port of this machine, a connection a call."""

    def __init__(self, port: int) -> None:
        self.port = port

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=15)
        try:
            connection.request(
                method, path, body, {"content-type": "application/json"} | (headers or {})
            )
            response = connection.getresponse()
            names = {key.lower(): value for key, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: Json, headers: dict[str, str] | None = None) -> Answer:
        return self.request("POST", path, json.dumps(body).encode(), headers)

    def post_later(self, path: str, body: Json) -> Pending:
        """Post in a thread; `Pending.answer` waits for it."""
        return Pending(self, path, body)

    def open_stream(self, path: str, body: Json) -> socket.socket:
        """Send a request on a raw socket and leave the rest to the test."""
        raw = json.dumps(body).encode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
        return connection


class WorkerProcess(HttpClient):
    """One running worker and what it logged."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        super().__init__(self._port_of("listens on"))

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(iter(self.process.stderr.readline, ""))

    def _port_of(self, words: str) -> int:
        def find() -> int | None:
            lines = [line for line in self.log if words in line]
            return int(re.findall(r":(\d+)$", lines[0].strip())[0]) if lines else None

        port: int = wait_until(find, 15)
        return port

    @property
    def bootstrap_port(self) -> int:
        return self._port_of("rendezvous")

    def wait_ready(self) -> WorkerProcess:
        wait_until(lambda: self.get("/health").status == 200, 10)
        return self

    @property
    def scheduler_pid(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])

    def end(self) -> int:
        """SIGTERM if it still runs; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._reader.join(5)
            assert self.process.stderr is not None
            self.process.stderr.close()

    # ---- what the scheduler saw ----------------------------------------------------------------

    def seen(self, kind: str, rid: str) -> list[Json]:
        """Messages of a kind (aborts, generates) for a rid, as the scheduler got them."""
        seen: list[Json] = self.get("/ledger").json["seen"][kind]
        return [message for message in seen if message["rid"] == rid]

    def wait_open(self, rid: str) -> None:
        """Until the scheduler has the request."""
        wait_until(lambda: self.get(f"/requests/{rid}").status == 200)

    def num_open(self) -> int:
        count: int = self.get("/ledger").json["rid_to_state"]
        return count


class Pending:
    """An answer that will come."""

    def __init__(self, worker: HttpClient, path: str, body: Json) -> None:
        self._answer: Answer | Exception | None = None
        self.ended_at = 0.0

        def run() -> None:
            try:
                self._answer = worker.post(path, body)
            except (OSError, http.client.HTTPException) as error:
                self._answer = error
            self.ended_at = time.monotonic()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def answer(self) -> Answer:
        self._thread.join(15)
        assert isinstance(self._answer, Answer), self._answer
        return self._answer


@contextmanager
def running_worker(*flags: str) -> Iterator[WorkerProcess]:
    """A worker with the scripted scheduler on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.server.run_worker", "--port", "0", *flags],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker = None
    try:
        worker = WorkerProcess(process)
        yield worker
    finally:
        if worker is not None:
            worker.end()
        elif process.poll() is None:
            process.kill()
            process.wait()


class Collector:
    """An OTLP/HTTP sink in this process."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append(ExportTraceServiceRequest.FromString(raw))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def resources(self) -> list[dict[str, str]]:
        return [
            {item.key: item.value.string_value for item in spans.resource.attributes}
            for request in self.requests
            for spans in request.resource_spans
        ]

    def spans(self, rid: str) -> list[Span]:
        """All spans of a rid so far."""
        return [
            span
            for request in list(self.requests)
            for resource_spans in request.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
            if attributes(span).get("pd.rid") == rid
        ]

    def wait_spans(self, rid: str) -> dict[str, Span]:
        """Spans of an ended request by name; they are sent together."""
        spans: list[Span] = wait_until(lambda: self.spans(rid))
        by_name = {span.name: span for span in spans}
        assert len(by_name) == len(spans), "a span came twice"
        return by_name


def attributes(span: Span) -> dict[str, Any]:
    """Plain values of a span's attributes."""
    return {item.key: _plain(item.value) for item in span.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind)
