"""The two routes of `bench.kv_transfer`: straight to the receiver, or through a real toxiproxy."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from chaos.errors import ToxiproxyError
from chaos.links import Endpoint
from chaos.ports import PortPool
from chaos.tools import require_toxiproxy
from chaos.toxiproxy.adapter import ToxiproxyClient
from chaos.toxiproxy.model import ProxySpec

STARTS_WITHIN_S = 5.0


class KvRoute(msgspec.Struct, frozen=True, kw_only=True):
    """``links`` and ``plain``: where each receiver listens; ``*_dial``: what the sender dials."""

    name: str
    control: Endpoint
    links: Endpoint
    plain: Endpoint
    links_dial: Endpoint
    plain_dial: Endpoint


@contextmanager
def direct_route() -> Iterator[KvRoute]:
    pool = PortPool("127.0.0.1")
    control, links, plain = pool.take(), pool.take(), pool.take()
    pool.close()
    yield KvRoute(
        name="direct",
        control=control,
        links=links,
        plain=plain,
        links_dial=links,
        plain_dial=plain,
    )


@contextmanager
def proxied_route() -> Iterator[KvRoute]:
    """A toxiproxy server without toxics, one proxy for each receiver. Control goes straight."""
    pool = PortPool("127.0.0.1")
    server, control, links, plain, links_dial, plain_dial = (pool.take() for _ in range(6))
    pool.close()
    argv = [str(require_toxiproxy()), "-host", server.host, "-port", str(server.port)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _populate(ToxiproxyClient(server), {links_dial: links, plain_dial: plain})
        yield KvRoute(
            name="toxiproxy",
            control=control,
            links=links,
            plain=plain,
            links_dial=links_dial,
            plain_dial=plain_dial,
        )
    finally:
        process.terminate()
        process.wait(STARTS_WITHIN_S)


def _populate(client: ToxiproxyClient, proxies: dict[Endpoint, Endpoint]) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    specs = [
        ProxySpec(name=f"kv-{listen.port}", listen=str(listen), upstream=str(upstream))
        for listen, upstream in proxies.items()
    ]
    while True:
        try:
            client.proxies()
            break
        except ToxiproxyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    for spec in specs:
        client.populate([spec])
