"""What a canary sees of a healthy, a closed and an absent peer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import zmq

from chaos.canary import Canary, send_canary
from chaos.codes import LinkKind
from chaos.links import Endpoint, Link, LinkName

LinkTo = Callable[..., Link]


def straight(port: int, kind: LinkKind) -> Link:
    """A link without a proxy: listen and upstream are one."""
    endpoint = Endpoint("127.0.0.1", port)
    return Link(
        name=LinkName(kind=kind, prefill="p0", decode="d0"), listen=endpoint, upstream=endpoint
    )


@pytest.mark.parametrize("kind", [zmq.ROUTER, zmq.PULL, zmq.DEALER])
def test_a_zmq_peer_greets_and_is_not_disturbed(kind: int) -> None:
    with zmq.Context() as context, context.socket(kind) as peer, context.socket(zmq.DEALER) as user:
        port = peer.bind_to_random_port("tcp://127.0.0.1")
        assert send_canary(straight(port, LinkKind.KV)) is Canary.PASSES
        assert not peer.poll(50), "the canary must not become a message"
        user.linger = 0


def test_an_http_peer_answers() -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        seen = send_canary(straight(server.server_port, LinkKind.BOOTSTRAP))
        thread.join()
    assert seen is Canary.PASSES


def test_a_silent_a_closing_and_an_absent_peer(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert send_canary(straight(port, LinkKind.KV), wait_s=0.1) is Canary.SILENT

    def close_at_once() -> None:
        for _ in range(2):
            listener.accept()[0].close()

    thread = threading.Thread(target=close_at_once)
    thread.start()
    assert send_canary(straight(port, LinkKind.KV)) is Canary.CLOSED
    thread.join()
    listener.close()
    assert send_canary(straight(port, LinkKind.KV)) is Canary.REFUSED
