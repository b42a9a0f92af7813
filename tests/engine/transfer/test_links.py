"""Both halves' links over real sockets: sessions, pages, death, restart, and what is not ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
import xxhash
import zmq

from engine.core.codes import AbortReason
from engine.core.peer import (
    Attempt,
    Committed,
    Connect,
    Inbound,
    Join,
    KvArrived,
    KvPages,
    KvSettled,
    PeerLost,
    PeerSaid,
    PeerUp,
    SendKv,
    Tell,
)
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.links import Links
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Route
from engine.transfer.session import Identity

PAGE_BYTES = 8
DEAD_S = 0.4


class RouteServer:
    """A rendezvous on a real port."""

    def __init__(self) -> None:
        self.route: Route | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = msgspec.json.encode(outer.route) if outer.route else b""
                self.send_response(200 if outer.route else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class End:
    """One half's links with what they delivered."""

    def __init__(self, make: Callable[[Callable[[Inbound], None], LoopPulse], Links]) -> None:
        self.news: list[Inbound] = []
        self.pulse = LoopPulse(rooms_open=1)
        self.links = make(self.news.append, self.pulse)
        self.is_frozen = False

    def turn(self) -> None:
        if self.is_frozen:
            return
        now_ns = time.monotonic_ns()
        for socket, handle in self.links.sockets().items():
            while not socket.closed:
                try:
                    frames = socket.recv_multipart(zmq.DONTWAIT)
                except zmq.ZMQError:
                    break
                handle(frames, now_ns)
        self.links.tick(now_ns)

    def got(self, kind: type[Inbound]) -> list[Inbound]:
        return [item for item in self.news if isinstance(item, kind)]


def identity(name: str, incarnation: str, fingerprint: str = "f") -> Identity:
    return Identity(
        worker_name=name,
        incarnation=incarnation,
        fingerprint=fingerprint,
        page_bytes=PAGE_BYTES,
        dead_after_ns=int(DEAD_S * 1e9),
    )


def make_prefill(incarnation: str = "p-1", port: int = 0) -> End:
    return End(
        lambda deliver, pulse: PrefillLinks(
            identity("p0", incarnation), f"127.0.0.1:{port or '*'}", AddressMap({}), deliver, pulse
        )
    )


def make_decode(incarnation: str = "d-1", fingerprint: str = "f", port: int = 0) -> End:
    return End(
        lambda deliver, pulse: DecodeLinks(
            identity("d0", incarnation, fingerprint),
            f"127.0.0.1:{port or '*'}",
            AddressMap({}),
            deliver,
            pulse,
        )
    )


def when_free(make: Callable[[], End]) -> End:
    """zmq gives a closed socket's port back from its own thread, a moment later."""
    deadline = time.monotonic() + 3.0
    while True:
        try:
            return make()
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE or time.monotonic() > deadline:
                raise


def until(ends: list[End], done: Callable[[], bool], within_s: float = 8.0) -> None:
    """Turn every end until ``done``; the sockets' own readiness sets the pace."""
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, [end.news for end in ends]
        for end in ends:
            end.turn()
        poller = zmq.Poller()
        for end in ends:
            for socket in end.links.sockets():
                poller.register(socket, zmq.POLLIN)
        poller.poll(5)


@pytest.fixture
def route() -> Iterator[RouteServer]:
    server = RouteServer()
    yield server
    server.close()


def publish(route: RouteServer, prefill: End, incarnation: str = "p-1") -> None:
    assert isinstance(prefill.links, PrefillLinks)
    port = int(prefill.links.control_endpoint.rpartition(":")[2])
    route.route = Route(
        worker_name="p0",
        incarnation=incarnation,
        control_host="127.0.0.1",
        control_port=port,
        page_size=4,
        fingerprint="f",
    )


@pytest.fixture
def pair(route: RouteServer) -> Iterator[tuple[End, End]]:
    prefill, decode = make_prefill(), make_decode()
    publish(route, prefill)
    decode.links.connect(Connect(peer=route.address))
    until([prefill, decode], lambda: bool(prefill.got(PeerUp) and decode.got(PeerUp)))
    yield prefill, decode
    prefill.links.close()
    decode.links.close()


def pages(room: int, first: int, data: bytes, is_last: bool = False) -> SendKv:
    num_pages = len(data) // PAGE_BYTES
    return SendKv(
        peer="d0",
        owner=f"r/{room}",
        header=KvPages(
            room=room,
            attempt=Attempt("d-1", 1),
            first_page=first,
            num_pages=num_pages,
            is_last=is_last,
            checksum=0,
        ),
        page_ids=tuple(range(num_pages)),
        staging_ids=tuple(range(first, first + num_pages)),
    )


def send(prefill: End, command: SendKv, data: bytes) -> None:
    prefill.links.send_kv(command, data, xxhash.xxh3_64_intdigest(data))


def test_messages_and_pages_go_through(route: RouteServer, pair: tuple[End, End]) -> None:
    prefill, decode = pair
    join = Join(room=1, attempt=Attempt("d-1", 1), rid="r")
    decode.links.tell(Tell(peer=route.address, message=join))
    until([prefill, decode], lambda: bool(prefill.got(PeerSaid)))
    assert prefill.got(PeerSaid) == [PeerSaid(peer="d0", message=join)]
    big = bytes(range(256)) * 4096  # above zmq's by-reference size
    send(prefill, pages(1, 0, big), big)
    until([prefill, decode], lambda: bool(decode.got(KvArrived) and prefill.got(KvSettled)))
    (arrived,) = decode.got(KvArrived)
    assert isinstance(arrived, KvArrived)
    assert arrived.data == big
    assert arrived.intact
    (settled,) = prefill.got(KvSettled)
    assert isinstance(settled, KvSettled)
    assert settled.acknowledged


def test_damaged_pages_are_seen(pair: tuple[End, End]) -> None:
    prefill, decode = pair
    data = bytes(PAGE_BYTES)
    prefill.links.send_kv(pages(1, 0, data), data, 12345)
    until([prefill, decode], lambda: bool(decode.got(KvArrived)))
    (arrived,) = decode.got(KvArrived)
    assert isinstance(arrived, KvArrived)
    assert not arrived.intact


def test_a_silent_peer_is_dead_in_time_and_its_staging_is_free(pair: tuple[End, End]) -> None:
    prefill, decode = pair
    decode.is_frozen = True
    data = bytes(PAGE_BYTES)
    send(prefill, pages(1, 0, data), data)
    began = time.monotonic()
    until([prefill, decode], lambda: bool(prefill.got(PeerLost)))
    assert DEAD_S * 0.5 < time.monotonic() - began < DEAD_S + 1.0
    (lost,) = prefill.got(PeerLost)
    assert isinstance(lost, PeerLost)
    assert lost.reason is AbortReason.PEER_DEAD
    (settled,) = prefill.got(KvSettled)
    assert isinstance(settled, KvSettled)
    assert not settled.acknowledged


def test_the_pair_meets_again_by_itself(pair: tuple[End, End]) -> None:
    prefill, decode = pair
    decode.is_frozen = True
    until([prefill, decode], lambda: bool(prefill.got(PeerLost)))
    decode.is_frozen = False
    until([prefill, decode], lambda: len(decode.got(PeerUp)) == 2 and len(prefill.got(PeerUp)) == 2)
    assert len(decode.got(PeerLost)) == 1


def test_a_restarted_decode_gets_nothing_of_the_dead_one(route: RouteServer) -> None:
    """zmq hands a restarted peer the dead one's frames (5 of 5, measured)."""
    prefill, decode = make_prefill(), make_decode()
    publish(route, prefill)
    decode.links.connect(Connect(peer=route.address))
    until([prefill, decode], lambda: bool(prefill.got(PeerUp) and decode.got(PeerUp)))
    assert isinstance(decode.links, DecodeLinks)
    port = int(decode.links.kv_address.rpartition(":")[2])
    decode.links.close()
    data = bytes(PAGE_BYTES)
    for first in range(5):
        send(prefill, pages(1, first, data), data)
    prefill.turn()
    successor = when_free(lambda: make_decode("d-2", port=port))
    successor.links.connect(Connect(peer=route.address))
    until([prefill, successor], lambda: len(prefill.got(PeerUp)) == 2)
    send(prefill, pages(2, 0, data), data)
    until([prefill, successor], lambda: bool(successor.got(KvArrived)))
    rooms = [item.header.room for item in successor.got(KvArrived) if isinstance(item, KvArrived)]
    assert rooms == [2]
    assert len(prefill.got(PeerLost)) == 1
    prefill.links.close()
    successor.links.close()


def test_a_restarted_prefill_is_found_again(route: RouteServer, pair: tuple[End, End]) -> None:
    prefill, decode = pair
    assert isinstance(prefill.links, PrefillLinks)
    port = int(prefill.links.control_endpoint.rpartition(":")[2])
    prefill.links.close()
    prefill.is_frozen = True
    successor = when_free(lambda: make_prefill("p-2", port))
    publish(route, successor, "p-2")
    until([successor, decode], lambda: len(decode.got(PeerUp)) == 2)
    up = decode.got(PeerUp)[-1]
    assert isinstance(up, PeerUp)
    assert up.incarnation == "p-2"
    committed = Committed(room=1, attempt=Attempt("d-1", 1))
    decode.links.tell(Tell(peer=route.address, message=committed))
    until([successor, decode], lambda: bool(successor.got(PeerSaid)))
    successor.links.close()


def test_halves_with_different_models_are_refused(route: RouteServer) -> None:
    prefill, decode = make_prefill(), make_decode(fingerprint="other")
    publish(route, prefill)
    decode.links.connect(Connect(peer=route.address))
    ends = [prefill, decode]
    deadline = time.monotonic() + 1.0
    until(ends, lambda: time.monotonic() > deadline)
    assert prefill.got(PeerUp) == []
    assert decode.got(PeerUp) == []
    prefill.links.close()
    decode.links.close()


def test_garbage_is_counted_and_dropped(route: RouteServer, pair: tuple[End, End]) -> None:
    prefill, decode = pair
    assert isinstance(prefill.links, PrefillLinks)
    assert isinstance(decode.links, DecodeLinks)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    strangers = [context.socket(zmq.DEALER), context.socket(zmq.DEALER)]
    strangers[0].connect(prefill.links.control_endpoint)
    strangers[1].connect(f"tcp://{decode.links.kv_address}")
    for stranger in strangers:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.send_multipart([b"\x93not msgpack", b"x"])
        stranger.send_multipart([b""])
    until(
        [prefill, decode],
        lambda: prefill.links.counters.malformed >= 2 and decode.links.counters.malformed >= 2,
    )
    join = Join(room=1, attempt=Attempt("d-1", 1), rid="r")
    decode.links.tell(Tell(peer=route.address, message=join))
    until([prefill, decode], lambda: bool(prefill.got(PeerSaid)))
    for stranger in strangers:
        stranger.close()


def test_a_wedged_loop_is_dead_and_a_long_forward_is_not(pair: tuple[End, End]) -> None:
    prefill, decode = pair
    decode.pulse.step_started_ns = time.monotonic_ns() - 3_000_000_000
    deadline = time.monotonic() + DEAD_S * 2
    until([prefill, decode], lambda: time.monotonic() > deadline)
    assert prefill.got(PeerLost) == []
    decode.pulse.step_started_ns = time.monotonic_ns() - 6_000_000_000
    until([prefill, decode], lambda: bool(prefill.got(PeerLost)))
