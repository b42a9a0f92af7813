"""The adapter and the server against a real toxiproxy."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from chaos.errors import ReadBackMismatch, ToxiproxyDown, ToxiproxyRefused, ToxiproxyTimeout
from chaos.faults import blackhole, stall
from chaos.links import Endpoint, Link
from chaos.toxiproxy.adapter import ToxiproxyClient
from chaos.toxiproxy.model import Toxic
from chaos.toxiproxy.server import ToxiproxyServer

Serve = Callable[..., ToxiproxyServer]
LinkTo = Callable[[socket.socket], Link]


def dial(link: Link) -> socket.socket:
    connection = socket.create_connection((link.listen.host, link.listen.port), 5)
    connection.settimeout(5)
    return connection


def put_on(server: ToxiproxyServer, link: Link, toxics: tuple[Toxic, ...]) -> None:
    for toxic in toxics:
        server.client.add_toxic(link.proxy, toxic)


def take_off(server: ToxiproxyServer, link: Link, toxics: tuple[Toxic, ...]) -> None:
    for toxic in toxics:
        server.client.remove_toxic(link.proxy, toxic.name)


def read_all(connection: socket.socket, num_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < num_bytes and (part := connection.recv(1 << 16)):
        data += part
    return bytes(data)


def test_stall_keeps_every_byte_and_the_connection(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    payload = os.urandom(24 << 20)
    with dial(link) as near:
        far, _ = listener.accept()
        with far:
            far.settimeout(10)
            put_on(server, link, stall.stall_cut().toxics)
            sender = threading.Thread(target=near.sendall, args=(payload,))
            sender.start()
            far.settimeout(0.3)
            with pytest.raises(TimeoutError):
                far.recv(1)
            assert sender.is_alive(), "24 MB fit into the cut link: that is no back-pressure"
            take_off(server, link, stall.stall_cut().toxics)
            far.settimeout(10)
            got = read_all(far, len(payload))
            sender.join()
            assert hashlib.sha256(got).digest() == hashlib.sha256(payload).digest()
            far.sendall(b"still the same connection")
            assert near.recv(100) == b"still the same connection"


def test_stall_also_stalls_new_connections(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    put_on(server, link, stall.stall_cut().toxics)
    with dial(link) as near:
        far, _ = listener.accept()
        with far:
            far.sendall(b"greeting")
            near.settimeout(0.3)
            with pytest.raises(TimeoutError):
                near.recv(1)
            take_off(server, link, stall.stall_cut().toxics)
            near.settimeout(5)
            assert near.recv(100) == b"greeting"


def test_blackhole_loses_and_the_heal_closes(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    with dial(link) as near:
        far, _ = listener.accept()
        with far:
            near.sendall(b"before")
            assert far.recv(100) == b"before"
            put_on(server, link, blackhole.blackhole_cut().toxics)
            payload = b"x" * (16 << 20)
            near.sendall(payload)
            far.settimeout(0.3)
            with pytest.raises(TimeoutError):
                far.recv(1)
            take_off(server, link, blackhole.blackhole_cut().toxics)
            far.settimeout(5)
            assert far.recv(100) == b"", "what was sent into a blackhole must not come out"
            assert near.recv(100) == b""


def test_a_misspelt_attribute_is_caught_and_taken_off(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    typo = Toxic(name="slow", type="latency", stream="upstream", attributes={"latencyy": 500})
    with pytest.raises(ReadBackMismatch, match=r"latencyy"):
        server.client.add_toxic(link.proxy, typo)
    assert server.client.proxy(link.proxy).toxics == ()


def test_refusals_carry_the_status(serve: Serve, link_to: LinkTo, listener: socket.socket) -> None:
    link = link_to(listener)
    server = serve(link)
    with pytest.raises(ToxiproxyRefused) as caught:
        server.client.add_toxic(
            link.proxy, Toxic(name="x", type="nonsense", stream="upstream", attributes={})
        )
    assert caught.value.status == 400
    with pytest.raises(ToxiproxyRefused) as caught:
        server.client.remove_toxic(link.proxy, "absent")
    assert caught.value.status == 404


def test_http_proxy_in_the_environment_is_ignored(
    serve: Serve,
    link_to: LinkTo,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    link = link_to(listener)
    server = serve(link)
    put_on(server, link, stall.stall_cut().toxics)
    assert {t.name for t in server.emergency.proxy(link.proxy).toxics} == {"stall_up", "stall_down"}


def test_two_servers_in_one_process_do_not_mix(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    first_link, second_link = link_to(listener), link_to(listener)
    first, second = serve(first_link), serve(second_link)
    put_on(first, first_link, stall.stall_cut().toxics)
    assert len(first.client.proxy(first_link.proxy).toxics) == 2
    assert second.client.proxy(second_link.proxy).toxics == ()


def test_a_silent_server_costs_the_limit_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ToxiproxyClient(Endpoint("127.0.0.1", silent.getsockname()[1]), timeout_s=0.2)
        begun = time.monotonic()
        with pytest.raises(ToxiproxyTimeout):
            client.proxies()
        assert time.monotonic() - begun < 1.0


def test_a_killed_server_is_respawned_with_its_proxies(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    put_on(server, link, stall.stall_cut().toxics)
    first_pid = server.pid
    server.kill()
    with pytest.raises(ToxiproxyDown):
        server.client.proxies()
    server.start()
    assert server.pid not in (None, first_pid)
    held = server.client.proxy(link.proxy)
    assert (held.listen, held.upstream) == (str(link.listen), str(link.upstream))
    assert held.toxics == ()


def test_populate_keeps_what_is_unchanged(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    from chaos.toxiproxy.server import proxy_spec

    link = link_to(listener)
    server = serve(link)
    with dial(link) as near:
        far, _ = listener.accept()
        with far:
            server.client.populate([proxy_spec(link)])
            near.sendall(b"alive")
            assert far.recv(100) == b"alive"
