"""Every mode on a real zmq link through a real proxy: what it declares about its heal is what happens."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec
import pytest

from chaos.codes import CutMode, Direction, LinkKind, Lost
from chaos.fault_spec import LinkFaultSpec
from chaos.faults.cuts import cut_links
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer
from tests.chaos.link_probe import Measured, measure, zmq_link

Serve = Callable[..., ToxiproxyServer]
LinkTo = Callable[..., Link]

MODES: dict[str, dict[str, object]] = {
    "stall": {"mode": "stall"},
    "stall up": {"mode": "stall", "direction": "up"},
    "blackhole": {"mode": "blackhole"},
    "blackhole down": {"mode": "blackhole", "direction": "down"},
    "refuse": {"mode": "refuse"},
    "reset": {"mode": "reset"},
    "reset up": {"mode": "reset", "direction": "up"},
    "one_way up": {"mode": "one_way", "direction": "up"},
    "one_way down": {"mode": "one_way", "direction": "down"},
    "one_way up of blackhole": {"mode": "one_way", "direction": "up", "of": "blackhole"},
    "trickle": {"mode": "trickle", "rate_kb_s": 20},
    "trickle down": {"mode": "trickle", "rate_kb_s": 2, "direction": "down"},
    "latency": {"mode": "latency", "latency_ms": 120, "jitter_ms": 40},
    "latency up": {"mode": "latency", "latency_ms": 120, "direction": "up"},
    "cut_after": {"mode": "cut_after", "after_bytes": 20_000},
    "flap of stall": {"mode": "flap", "period_s": 0.4, "duty": 0.5},
    "flap of blackhole": {"mode": "flap", "of": "blackhole", "period_s": 0.4, "duty": 0.5},
    "flap of refuse": {"mode": "flap", "of": "refuse", "period_s": 0.6, "duty": 0.5},
}


def spec_of(fields: dict[str, object]) -> LinkFaultSpec:
    return msgspec.convert(
        {"kind": "link", "links": ["kv:*"], "for_s": 1.0, **fields}, LinkFaultSpec
    )


def run(
    fields: dict[str, object], serve: Serve, listener: socket.socket, link_to: LinkTo
) -> tuple[LinkFaultSpec, Measured, tuple[bool | None, Lost]]:
    link = link_to(listener)
    listener.close()
    servers: list[ToxiproxyServer] = []
    spec = spec_of(fields)

    def start() -> ToxiproxyServer:
        servers.append(serve(link))
        return servers[0]

    with zmq_link(link, start) as (near, far):
        fault = cut_links(spec, servers[0], [link])
        on_heal = fault.declaration.on_heal
        assert on_heal is not None
        assert fault.declaration.mode == spec.mode
        seen = measure(fault, servers[0], link, near, far)
        assert servers[0].client.proxy(link.proxy).toxics == ()
    return spec, seen, (on_heal.survives, on_heal.lost)


@pytest.mark.parametrize("name", MODES)
def test_a_mode_is_proven_and_heals_as_it_says(
    name: str, serve: Serve, listener: socket.socket, link_to: LinkTo
) -> None:
    spec, seen, (survives, lost) = run(MODES[name], serve, listener, link_to)
    print(f"MEASURED {name} | {seen}")
    assert seen.proven, seen.proof
    # Two connections have no order between them; one has.
    assert seen.in_order or not survives, seen
    assert seen.sent > 30
    assert seen.survived is survives, seen
    cut_lost, other_lost = seen.lost_up, seen.lost_down
    if spec.direction is Direction.DOWN:
        cut_lost, other_lost = other_lost, cut_lost
    if lost is Lost.NOTHING:
        assert (cut_lost, other_lost) == (0, 0), seen
    elif lost is Lost.ALL and spec.mode is not CutMode.FLAP:
        sent = seen.sent_down if spec.direction is Direction.DOWN else seen.sent
        assert cut_lost == sent, seen
    else:
        # Of what the dialing end sends; the listening end has no queue for a peer that is gone.
        assert seen.lost_up < seen.sent, seen
    if spec.mode is CutMode.ONE_WAY:
        assert other_lost == 0 or not survives, "the other direction works while it is on"


def test_a_bypass_is_an_error_and_says_so(
    serve: Serve, listener: socket.socket, link_to: LinkTo
) -> None:
    """One worker goes through the proxy, another straight to the far end: half a cut is none."""
    link = link_to(listener)
    listener.close()
    servers: list[ToxiproxyServer] = []
    with zmq_link(link, lambda: servers.append(serve(link)) or servers[0]):
        with socket.create_connection((link.upstream.host, link.upstream.port)):
            fault = cut_links(spec_of({"mode": "stall"}), servers[0], [link])
            fault.inject()
            proof = fault.verify()
            fault.heal()
    assert not proof.proven
    assert "BYPASS: 1 connections go round the proxy" in proof.text


@pytest.mark.parametrize("fields", [{"mode": "stall"}, {"mode": "refuse"}])
def test_the_server_killed_during_a_fault_unproves_it(
    fields: dict[str, object], serve: Serve, listener: socket.socket, link_to: LinkTo
) -> None:
    link = link_to(listener)
    listener.close()
    servers: list[ToxiproxyServer] = []
    with zmq_link(link, lambda: servers.append(serve(link)) or servers[0]):
        fault = cut_links(spec_of(fields), servers[0], [link])
        fault.inject()
        assert fault.verify().proven
        servers[0].kill()
        again = fault.verify()
        assert not again.proven
        assert "no longer holds" in again.text
        report = fault.heal()
    assert report.healed, report.left
    assert report.rung == "respawn_server"
    assert report.effect_ms is not None


def test_a_rendezvous_that_was_visited_counts_as_used(
    serve: Serve, listener: socket.socket, link_to: LinkTo
) -> None:
    """HTTP connections are short: the proxy's log knows them, and our canaries are no visits."""
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from urllib.request import urlopen

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    listener.close()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        link = link_to(http.socket, LinkKind.BOOTSTRAP)
        server = serve(link)
        for visited in (False, True):
            if visited:
                urlopen(f"http://{link.listen}/", timeout=5).close()
            fault = cut_links(spec_of({"mode": "refuse"}), server, [link])
            fault.inject()
            proof = fault.verify()
            assert fault.heal().healed
            assert proof.proven is visited, proof.text
        http.shutdown()
