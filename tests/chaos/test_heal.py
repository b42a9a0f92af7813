"""Each rung of the heal ladder, forced by the failure that makes the rung below it useless."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from chaos.codes import HealRung
from chaos.errors import ToxiproxyTimeout
from chaos.faults import stall
from chaos.heal import heal_links, unhealed
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer

Serve = Callable[..., ToxiproxyServer]
LinkTo = Callable[[socket.socket], Link]


@contextmanager
def back_pressure(link: Link, listener: socket.socket) -> Iterator[None]:
    """A connection whose reader does not read and whose buffers are full."""
    with socket.create_connection((link.listen.host, link.listen.port), 5) as near:
        far, _ = listener.accept()
        with far:
            near.settimeout(0.3)
            fill(near)
            yield


def fill(connection: socket.socket) -> None:
    """Send until nothing more is taken."""
    try:
        while True:
            connection.sendall(b"x" * (1 << 20))
    except TimeoutError:
        return


@contextmanager
def swallowed_syns(listener: socket.socket) -> Iterator[None]:
    """Fill the accept queue, so that the kernel drops every further SYN."""
    waiting = []
    try:
        while True:
            connection = socket.socket()
            waiting.append(connection)
            connection.settimeout(0.2)
            try:
                connection.connect(listener.getsockname())
            except TimeoutError:
                break
        yield
    finally:
        for connection in waiting:
            connection.close()


def hang(server: ToxiproxyServer, link: Link) -> None:
    """Any toxic call on a back-pressured stream hangs the control API of that proxy."""
    with pytest.raises(ToxiproxyTimeout):
        server.client.add_toxic(link.proxy, stall.stall_cut().toxics[0])


def test_first_rung_removes_toxics(serve: Serve, link_to: LinkTo, listener: socket.socket) -> None:
    link, bystander = link_to(listener), link_to(listener)
    bystander = Link(
        name=type(link.name)(kind=link.name.kind, prefill="p0", decode="d1"),
        listen=bystander.listen,
        upstream=bystander.upstream,
    )
    server = serve(link, bystander)
    for toxic in stall.stall_cut().toxics:
        server.client.add_toxic(link.proxy, toxic)
    assert unhealed(server, [link, bystander]) == [link]
    report = heal_links(server, [link, bystander])
    assert (report.rung, report.healed) == (HealRung.REMOVE_TOXICS, True)
    assert report.ms < 500
    assert unhealed(server, [link, bystander]) == []


@pytest.mark.parametrize("closers", ["near", "far", "both"])
def test_first_rung_suffices_when_peers_hung_up_during_the_stall(
    serve: Serve, link_to: LinkTo, listener: socket.socket, closers: str
) -> None:
    """Removing the toxics at once would hang here, and an accept would then hang the DELETE too."""
    link = link_to(listener)
    server = serve(link)
    with contextlib.ExitStack() as stack:

        def pair() -> tuple[socket.socket, socket.socket]:
            near = stack.enter_context(
                socket.create_connection((link.listen.host, link.listen.port), 5)
            )
            return near, stack.enter_context(listener.accept()[0])

        (near, far), (live_near, live_far) = pair(), pair()
        for toxic in stall.stall_cut().toxics:
            server.client.add_toxic(link.proxy, toxic)
        for _ in range(20):
            for end in (near, far, live_near, live_far):
                end.sendall(b"beat")
            time.sleep(0.002)
        for end in {"near": [near], "far": [far], "both": [near, far]}[closers]:
            end.close()
        late_near, late_far = pair()
        report = heal_links(server, [link])
        assert (report.rung, report.healed) == (HealRung.REMOVE_TOXICS, True), report.detail
        for end in (live_near, live_far):
            end.settimeout(5)
            assert end.recv(80, socket.MSG_WAITALL) == b"beat" * 20
        late_near.sendall(b"x")
        assert late_far.recv(1) == b"x"
        for toxic in stall.stall_cut().toxics:
            server.client.add_toxic(link.proxy, toxic)
        assert heal_links(server, [link]).rung is HealRung.REMOVE_TOXICS, "and again"


def test_healing_many_waiting_connections_does_not_crash_the_server(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    """A larger rate instead of toxicity 0 made the server panic here: slice bounds out of range."""
    link = link_to(listener)
    server = serve(link)
    pid = server.pid
    with contextlib.ExitStack() as stack:
        ends = []
        for _ in range(150):
            near = socket.create_connection((link.listen.host, link.listen.port), 5)
            ends.append((stack.enter_context(near), stack.enter_context(listener.accept()[0])))
        for toxic in stall.stall_cut().toxics:
            server.client.add_toxic(link.proxy, toxic)
        for near, far in ends:
            near.sendall(b"up")
            far.sendall(b"down")
            time.sleep(0.001)
        report = heal_links(server, [link])
        assert (report.rung, report.healed) == (HealRung.REMOVE_TOXICS, True), report.detail
        assert server.pid == pid, "the server crashed"
        for near, far in ends:
            for end, expected in ((far, b"up"), (near, b"down")):
                end.settimeout(5)
                assert end.recv(10) == expected


def test_second_rung_when_back_pressure_hangs_the_api(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    pid = server.pid
    with back_pressure(link, listener):
        hang(server, link)
        report = heal_links(server, [link])
    assert (report.rung, report.healed) == (HealRung.RECREATE_PROXY, True)
    assert [r.rung for r in report.rungs] == [HealRung.REMOVE_TOXICS, HealRung.RECREATE_PROXY]
    assert not report.rungs[0].ok
    assert report.ms < 4000
    assert server.pid == pid
    with socket.create_connection((link.listen.host, link.listen.port), 5) as near:
        far, _ = listener.accept()
        with far:
            near.sendall(b"healed")
            assert far.recv(100) == b"healed"


def test_third_rung_when_the_upstream_swallows_syns(serve: Serve, link_to: LinkTo) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        listener.settimeout(5)
        link = link_to(listener)
        server = serve(link)
        pid = server.pid
        with back_pressure(link, listener), swallowed_syns(listener):
            # The proxy's accept loop now dials without a time limit, and DELETE waits for that loop.
            with socket.create_connection((link.listen.host, link.listen.port), 5):
                hang(server, link)
                report = heal_links(server, [link])
        assert (report.rung, report.healed) == (HealRung.RESPAWN_SERVER, True)
        assert report.ms < 8000
        assert server.pid not in (None, pid)


def test_healing_twice_is_fine(serve: Serve, link_to: LinkTo, listener: socket.socket) -> None:
    link = link_to(listener)
    server = serve(link)
    server.client.add_toxic(link.proxy, stall.stall_cut().toxics[0])
    assert heal_links(server, [link]).healed
    again = heal_links(server, [link])
    assert (again.rung, again.healed) == (HealRung.REMOVE_TOXICS, True)


def test_a_dead_server_is_respawned(serve: Serve, link_to: LinkTo, listener: socket.socket) -> None:
    link = link_to(listener)
    server = serve(link)
    server.kill()
    report = heal_links(server, [link])
    assert (report.rung, report.healed) == (HealRung.RESPAWN_SERVER, True)


def test_what_cannot_be_healed_is_named(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    server.kill()
    with socket.create_server((server.control.host, server.control.port)):
        report = heal_links(server, [link])
    assert report.rung is HealRung.NONE
    assert report.left == ("proxy kv:p0-d0 is not clean",)
