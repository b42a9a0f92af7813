"""HTTP face of the store: POST /v1/traces, GET /health, GET /stats. A thread per connection."""

from __future__ import annotations

import http.server
import socket
import socketserver
import sys

import msgspec

from dashboards.errors import BodyRefused, PortUnavailable
from dashboards.spanstore.body import MAX_BODY_BYTES
from dashboards.spanstore.intake import Intake, MediaType, Reply, refusal

IDLE_TIMEOUT_S = 60.0
TRACES_PATH = "/v1/traces"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``GET /health``."""

    status: str
    error: str | None = None


class StoreServer(socketserver.ThreadingTCPServer):
    """Listens from construction on; ``serve_forever`` answers."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, host: str, port: int, intake: Intake) -> None:
        """Port 0 takes a free one. Raises `PortUnavailable`."""
        self.intake = intake
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise PortUnavailable(host, port, str(error)) from error

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """One line, no traceback: a sender that hangs up is nothing special."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            print(f"spanstore: a connection failed: {error!r}", file=sys.stderr, flush=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: StoreServer
    protocol_version = "HTTP/1.1"
    server_version = "severance-spanstore"
    sys_version = ""
    timeout = IDLE_TIMEOUT_S
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024  # head and body leave in one packet

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/health":
                self._reply(self._health())
            case "/stats":
                body = msgspec.json.encode(self.server.intake.stats())
                self._reply(Reply(200, MediaType.JSON, body))
            case path:
                self._reply(_unknown(path))

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        with self.server.intake.handling():
            try:
                raw = self._read_body()
            except BodyRefused as refused:
                self.close_connection = True  # what is left of the body is not a request
                self._reply(self.server.intake.refuse(refused))
                return
            if path != TRACES_PATH:
                self._reply(_unknown(path))
                return
            content_type = self.headers.get("Content-Type", "")
            encoding = self.headers.get("Content-Encoding", "")
            self._reply(self.server.intake.take(raw, content_type, encoding))

    def _health(self) -> Reply:
        error = self.server.intake.failing
        health = Health(status="failing" if error else "ok", error=error)
        return Reply(503 if error else 200, MediaType.JSON, msgspec.json.encode(health))

    def _read_body(self) -> bytes:
        length = _length(self.headers.get("Content-Length"))
        raw = self.rfile.read(length)
        if len(raw) < length:
            raise BodyRefused(400, f"the body ended after {len(raw)} of {length} bytes")
        return raw

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.media_type)
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.status == 503:
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """No access log: the counters say it all."""


def _length(text: str | None) -> int:
    if text is None:
        raise BodyRefused(411, "send Content-Length; a chunked body is not taken")
    if not text.isdecimal():
        raise BodyRefused(400, f"Content-Length {text[:40]!r} is no number")
    if len(text) > 12 or int(text) > MAX_BODY_BYTES:
        raise BodyRefused(413, f"the body is over {MAX_BODY_BYTES} bytes; send smaller batches")
    return int(text)


def _unknown(path: str) -> Reply:
    return refusal(
        404, f"no {path[:80]} here; there is POST {TRACES_PATH}, GET /health and GET /stats"
    )
