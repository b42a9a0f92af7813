"""Real toxiproxy servers, real sockets and real processes for the tests of `chaos`."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.codes import LinkKind
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.links import Endpoint, Link, LinkName
from chaos.ports import PortPool
from chaos.process import Launcher
from chaos.tools import require_toxiproxy
from chaos.toxiproxy.server import ToxiproxyServer

HOST = "127.0.0.1"


@pytest.fixture(scope="session")
def toxiproxy_binary() -> Path:
    return require_toxiproxy()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, "test-run")


@pytest.fixture
def launcher(journal: Journal) -> Iterator[Launcher]:
    launcher = Launcher(journal)
    yield launcher
    assert launcher.stop_all() == []


@pytest.fixture
def brake() -> Iterator[Brake]:
    brake = Brake()
    yield brake
    brake.close()


@pytest.fixture
def ports() -> Iterator[PortPool]:
    pool = PortPool(HOST)
    yield pool
    pool.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """The far end of a link: a listening socket whose accepts the test does itself."""
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(5)
        yield server


@pytest.fixture
def link_to(ports: PortPool) -> Callable[[socket.socket], Link]:
    """A kv link whose far end is the given listening socket."""

    def make(server: socket.socket, kind: LinkKind = LinkKind.KV) -> Link:
        listen = ports.take()
        ports.release(listen)
        return Link(
            name=LinkName(kind=kind, prefill="p0", decode="d0"),
            listen=listen,
            upstream=Endpoint(HOST, server.getsockname()[1]),
        )

    return make


@pytest.fixture
def serve(
    toxiproxy_binary: Path, launcher: Launcher, ports: PortPool
) -> Callable[..., ToxiproxyServer]:
    """Start a toxiproxy server that holds the given links."""

    def start(*links: Link) -> ToxiproxyServer:
        control = ports.take()
        ports.release(control)
        server = ToxiproxyServer(toxiproxy_binary, control, launcher, links)
        server.start()
        return server

    return start
