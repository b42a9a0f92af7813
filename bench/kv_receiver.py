"""Decode's end of `bench.kv_transfer`, in a process of its own: ``python -m bench.kv_receiver links|plain``

Prints its kv address, then a JSON line (`Arrival`) for each transfer; ends when stdin closes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time

import msgspec
import zmq

from bench.kv_shapes import SHAPES, frame_pages, make_pool
from engine.core.peer import Connect, KvArrived, KvTaken
from engine.server.io_thread import IoThread
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.errors import RouteError
from engine.transfer.links import open_kv
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Route
from engine.transfer.session import Identity

PREFILL = "bench-prefill"


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """One whole transfer. CLOCK_MONOTONIC ns; ``scatter_ns``: spent putting pages in place."""

    room: int
    arrived_ns: int
    done_ns: int
    scatter_ns: int


class FixedRoute:
    """A rendezvous that is known: what is measured here is the kv link."""

    def __init__(self, control_port: int) -> None:
        self._route = Route(
            worker_name="p0",
            incarnation="p0-1",
            control_host="127.0.0.1",
            control_port=control_port,
            page_size=16,
            fingerprint="bench",
        )
        self._is_asked = False

    def ask(self) -> None:
        self._is_asked = True

    def answer(self) -> Route | RouteError | None:
        """The route, once a question."""
        if not self._is_asked:
            return None
        self._is_asked = False
        return self._route


def make_identity(name: str, page_bytes: int) -> Identity:
    return Identity(
        worker_name=name,
        incarnation=f"{name}-1",
        fingerprint="bench",
        page_bytes=page_bytes,
        dead_after_ns=5_000_000_000,
    )


def receive_by_links(shape: str, control_port: int, port: int) -> None:
    """The real I/O thread and links; this thread scatters, as the scheduler loop does."""
    pool = make_pool(SHAPES[shape])
    pages = frame_pages()
    pulse = LoopPulse(rooms_open=1)
    identity = make_identity("d0", pool.page_bytes)
    with tempfile.TemporaryDirectory() as directory:
        io = IoThread(
            f"ipc://{directory}/to",
            f"ipc://{directory}/from",
            pulse,
            lambda deliver: DecodeLinks(
                identity,
                f"127.0.0.1:{port}",
                AddressMap({}),
                deliver,
                pulse,
                make_resolver=lambda _address: FixedRoute(control_port),
            ),
        )
        io.start()
        io.submit([Connect(peer=PREFILL)])
        print(port, flush=True)
        scatter_ns = 0
        while True:
            for message in io.inbox.drain(0.02):
                if not isinstance(message, KvArrived):
                    continue
                arrived_ns = time.monotonic_ns()
                assert message.intact
                # Sustained streams (room < 0) are for the link alone.
                if message.header.room >= 0:
                    first = message.header.first_page // len(pages[0])
                    pool.scatter_pages(pages[first], message.data)
                    scatter_ns += time.monotonic_ns() - arrived_ns
                # As the core says after each of its slices: the frame's credit is free again.
                io.submit([KvTaken(peer=message.peer, session=message.session, seq=message.seq)])
                if message.header.is_last:
                    _tell(message.header.room, arrived_ns, scatter_ns)
                    scatter_ns = 0


def receive_plain(port: int) -> None:
    """Plain pyzmq: a ROUTER like decode's, frames copied out as pyzmq does by default, and dropped."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    socket = open_kv(context, zmq.ROUTER)
    socket.bind(f"tcp://127.0.0.1:{port}")
    print(port, flush=True)
    while True:
        _, header, _ = socket.recv_multipart()
        if header != b"0":
            _tell(int(header), time.monotonic_ns(), 0)


def _tell(room: int, arrived_ns: int, scatter_ns: int) -> None:
    done_ns = time.monotonic_ns()
    arrival = Arrival(room=room, arrived_ns=arrived_ns, done_ns=done_ns, scatter_ns=scatter_ns)
    sys.stdout.write(msgspec.json.encode(arrival).decode() + "\n")
    sys.stdout.flush()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("links", "plain"))
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--control-port", type=int, default=0)
    args = parser.parse_args()
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    if args.kind == "links":
        receive_by_links(args.shape, args.control_port, args.port)
    else:
        receive_plain(args.port)


if __name__ == "__main__":
    main()
