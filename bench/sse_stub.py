"""A server that streams on the clock, for many clients on one core: ``python -m bench.sse_stub --itl-ms 20``

Prints its port. Speaks as much of /generate and /abort_request as a load driver needs; frames are cumulative
and built once. When stdin closes it prints one JSON line (`StubStats`) and ends.
"""

from __future__ import annotations

import argparse
import heapq
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

import msgspec

from bench.row import percentile

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
MAX_TOKENS = 1_000
LIVE_SAMPLE_S = 0.1
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_RID = re.compile(rb'"rid": *"([^"]*)"')
_MAX_NEW = re.compile(rb'"max_new_tokens": *(\d+)')


class StubStats(msgspec.Struct, frozen=True, kw_only=True):
    """``live``: open streams, sampled ten times a second. ``late_p99_ms``: how late frames left here."""

    live: list[int]
    late_p99_ms: float
    num_frames: int


@dataclass(slots=True)
class Stream:
    """One connection; ``due_s`` of the next frame on time.monotonic."""

    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    rid: bytes = b""
    num_tokens: int = 0
    sent: int = 0
    due_s: float = 0.0
    is_open: bool = True


def make_frame(count: int, finish: str | None) -> bytes:
    """The event after ``count`` tokens, as an HTTP chunk."""
    reason = {"type": finish} if finish else None
    meta = {"id": "stub", "finish_reason": reason, "prompt_tokens": 1, "completion_tokens": count}
    ids = [65 + index % 26 for index in range(count)]
    body = {"text": "".join(map(chr, ids)), "output_ids": ids, "meta_info": meta}
    return _chunk(b"data: " + msgspec.json.encode(body) + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


DONE = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class Stub:
    """One thread: accepts, reads whole requests, sends what is due."""

    def __init__(self, itl_s: float) -> None:
        self._itl_s = itl_s
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._frames = [make_frame(count, None) for count in range(MAX_TOKENS)]
        self._due: list[tuple[float, int, Stream]] = []
        self._by_rid: dict[bytes, Stream] = {}
        self._order = 0
        self._late_ms: list[float] = []
        self._live: list[int] = []
        self._num_frames = 0

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def serve(self) -> StubStats:
        """Until stdin closes."""
        sample_due_s = 0.0
        while True:
            now_s = time.monotonic()
            wait_s = max(0.0, self._due[0][0] - now_s) if self._due else LIVE_SAMPLE_S
            for key, _ in self._selector.select(min(wait_s, LIVE_SAMPLE_S)):
                if key.fileobj is sys.stdin:
                    return self._stats()
                self._readable(key.data)
            self._send_due(time.monotonic())
            if now_s >= sample_due_s:
                sample_due_s = now_s + LIVE_SAMPLE_S
                self._live.append(len(self._by_rid))

    def _stats(self) -> StubStats:
        late_ms = percentile(self._late_ms, 99)
        return StubStats(live=self._live, late_p99_ms=late_ms, num_frames=self._num_frames)

    def _readable(self, stream: Stream | None) -> None:
        if stream is None:
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(connection, selectors.EVENT_READ, Stream(connection))
            return
        try:
            data = stream.socket.recv(1 << 16)
        except OSError:
            data = b""
        if data:
            stream.received += data
            self._read_request(stream)
        else:
            self._close(stream)

    def _read_request(self, stream: Stream) -> None:
        head, blank, body = bytes(stream.received).partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not blank or len(body) < (int(length[1]) if length else 0):
            return
        stream.received.clear()
        rid, max_new = _RID.search(body), _MAX_NEW.search(body)
        if head.startswith(b"POST /abort_request"):
            self._abort(stream, rid[1] if rid else b"")
        elif rid and max_new:
            stream.rid, stream.num_tokens = rid[1], int(max_new[1])
            self._by_rid[stream.rid] = stream
            stream.socket.send(HEAD)
            self._schedule(stream, time.monotonic() + self._itl_s)
        else:
            self._reply(stream, b"{}")

    def _abort(self, caller: Stream, rid: bytes) -> None:
        found = self._by_rid.get(rid)
        self._reply(caller, b'{"matched": %d}' % (found is not None))
        if found is not None:
            self._finish(found, "abort")

    def _reply(self, stream: Stream, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        stream.socket.send(head % len(body) + body)

    def _schedule(self, stream: Stream, due_s: float) -> None:
        stream.due_s = due_s
        self._order += 1
        heapq.heappush(self._due, (due_s, self._order, stream))

    def _send_due(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            due_s, _, stream = heapq.heappop(self._due)
            if not stream.is_open:
                continue
            self._num_frames += 1
            self._late_ms.append((time.monotonic() - due_s) * 1e3)
            stream.sent += 1
            if stream.sent == stream.num_tokens:
                self._finish(stream, "length")
            elif self._send(stream, self._frames[stream.sent]):
                self._schedule(stream, due_s + self._itl_s)

    def _finish(self, stream: Stream, reason: str) -> None:
        if self._send(stream, make_frame(stream.sent, reason) + DONE):
            self._close(stream)

    def _send(self, stream: Stream, data: bytes) -> bool:
        """A client that does not read is cut off: the stub must not wait for it."""
        try:
            if stream.socket.send(data) == len(data):
                return True
        except OSError:
            pass
        self._close(stream)
        return False

    def _close(self, stream: Stream) -> None:
        if stream.is_open:
            stream.is_open = False
            self._by_rid.pop(stream.rid, None)
            self._selector.unregister(stream.socket)
            stream.socket.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--itl-ms", type=float, default=20.0)
    stub = Stub(parser.parse_args().itl_ms / 1e3)
    print(stub.port, flush=True)
    print(msgspec.json.encode(stub.serve()).decode(), flush=True)


if __name__ == "__main__":
    main()
