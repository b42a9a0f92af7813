"""Prefill's end of `bench.kv_transfer`: the same frames by the real links, or by plain pyzmq."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import zmq

from bench.kv_receiver import Arrival, make_identity
from bench.kv_route import KvRoute
from bench.kv_shapes import CHUNK_PAGES, SHAPES, frame_pages, make_pool
from bench.run import ROOT
from engine.core.io_struct import TokenLogprob
from engine.core.peer import Attempt, Inbound, KvPages, PeerUp, SendKv
from engine.model.kv_pool import KvPool
from engine.server.io_thread import IoThread, KvCommand
from engine.transfer.links import open_kv
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap

ATTEMPT = Attempt("d0-1", 1)
TOKEN = TokenLogprob(token_id=1, logprob=0.0, margin=1.0)
CONNECTS_WITHIN_S = 10.0


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One transfer from its first gather to its last scatter, ns. ``link_ns``: without either."""

    total_ns: int
    gather_ns: int
    scatter_ns: int
    link_ns: int


class Receiver:
    """`bench.kv_receiver` as a process."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.kv_receiver", *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._line()

    def arrival(self, room: int) -> Arrival:
        """Wait for the next transfer, which must be ``room``."""
        arrival = msgspec.json.decode(self._line(), type=Arrival)
        assert arrival.room == room, (arrival, room)
        return arrival

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the receiver has ended: its error stands above")
        return line

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


class LinkSender:
    """The real I/O thread and `PrefillLinks`; the caller's thread gathers, as the scheduler loop does."""

    def __init__(self, shape: str, route: KvRoute, directory: Path) -> None:
        self.pool: KvPool = make_pool(SHAPES[shape])
        pulse = LoopPulse(rooms_open=1)
        identity = make_identity("p0", self.pool.page_bytes)
        dial = AddressMap({f"kv:{route.links}": str(route.links_dial)})
        self.io = IoThread(
            f"ipc://{directory}/to",
            f"ipc://{directory}/from",
            pulse,
            lambda deliver: PrefillLinks(identity, str(route.control), dial, deliver, pulse),
        )
        self.io.start()
        options = ("--shape", shape, "--port", str(route.links.port))
        self.receiver = Receiver("links", *options, "--control-port", str(route.control.port))
        self._await_session()

    def _await_session(self) -> None:
        deadline = time.monotonic() + CONNECTS_WITHIN_S
        news: list[Inbound] = []
        while not any(isinstance(item, PeerUp) for item in news):
            if time.monotonic() > deadline:
                raise RuntimeError("the two ends did not meet")
            news = self.io.inbox.drain(0.1)

    def request(self, room: int) -> Sent:
        """All pages of a request, gathered and sent frame by frame."""
        self.io.inbox.drain()
        gather_ns = 0
        began_ns = time.monotonic_ns()
        frames = frame_pages()
        for number, pages in enumerate(frames):
            gathering_ns = time.monotonic_ns()
            data = self.pool.gather_pages(pages)
            gather_ns += time.monotonic_ns() - gathering_ns
            self._submit(room, number, number == len(frames) - 1, data)
        arrival = self.receiver.arrival(room)
        return Sent(
            total_ns=arrival.done_ns - began_ns,
            gather_ns=gather_ns,
            scatter_ns=arrival.scatter_ns,
            link_ns=arrival.done_ns - began_ns - gather_ns - arrival.scatter_ns,
        )

    def stream(self, room: int, data: bytes, count: int) -> int:
        """``count`` frames of ``data`` at once: ns from the first to the last arrival, checked."""
        self.io.inbox.drain()
        began_ns = time.monotonic_ns()
        for number in range(count):
            self._submit(room, 0, number == count - 1, data)
        return self.receiver.arrival(room).arrived_ns - began_ns

    def _submit(self, room: int, number: int, is_last: bool, data: bytes) -> None:
        header = KvPages(
            room=room,
            attempt=ATTEMPT,
            first_page=number * CHUNK_PAGES,
            num_pages=CHUNK_PAGES,
            is_last=is_last,
            checksum=0,
            first_token=TOKEN if is_last else None,
        )
        send = SendKv(peer="d0", owner="bench", header=header, page_ids=(), staging_ids=())
        self.io.submit([KvCommand(send=send, data=data)])

    def stop(self) -> None:
        self.receiver.stop()
        self.io.stop()


class PlainSender:
    """A DEALER that sends by reference, and nothing else."""

    def __init__(self, route: KvRoute) -> None:
        self.receiver = Receiver("plain", "--port", str(route.plain.port))
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket = open_kv(context, zmq.DEALER)
        self._socket.connect(f"tcp://{route.plain_dial}")

    def stream(self, room: int, data: bytes, count: int) -> int:
        """As `LinkSender.stream`, without a check."""
        began_ns = time.monotonic_ns()
        for _ in range(count - 1):
            self._socket.send_multipart((b"0", data), copy=False)
        self._socket.send_multipart((str(room).encode(), data), copy=False)
        return self.receiver.arrival(room).arrived_ns - began_ns

    def stop(self) -> None:
        self.receiver.stop()
        self._socket.close()


@contextmanager
def senders(shape: str, route: KvRoute) -> Iterator[tuple[LinkSender, PlainSender]]:
    with tempfile.TemporaryDirectory() as directory:
        by_links = LinkSender(shape, route, Path(directory))
        try:
            plain = PlainSender(route)
            try:
                yield by_links, plain
            finally:
                plain.stop()
        finally:
            by_links.stop()
