"""Measures on a real zmq link what a cut does: numbered frames both ways, during it and after its heal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zmq
from msgspec import Struct

from chaos.faults.link import LinkFault
from chaos.faults.traffic import look
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer

Socket = zmq.Socket[bytes]
_FRAME = 1000
_WITHIN_MS = 8000


class Measured(Struct, frozen=True, kw_only=True):
    """``sent`` up, ``sent_down`` down while the link was cut: the listening end can send nothing to a peer
    that is gone. ``survived``: the connection of before is there after."""

    sent: int
    sent_down: int
    lost_up: int
    lost_down: int
    in_order: bool
    survived: bool
    proof: str
    proven: bool
    heal_ms: float
    first_ms: float


@contextmanager
def zmq_link(link: Link, serve: Callable[[], ToxiproxyServer]) -> Iterator[tuple[Socket, Socket]]:
    """(the dialing end, the listening end), connected; ``serve`` starts the proxy in between."""
    with (
        zmq.Context() as context,
        context.socket(zmq.DEALER) as far,
        context.socket(zmq.DEALER) as near,
    ):
        for end in (far, near):
            end.linger = 0
            end.sndhwm = end.rcvhwm = 0
            end.reconnect_ivl = 20
        far.bind(f"tcp://{link.upstream}")
        serve()
        near.connect(f"tcp://{link.listen}")
        near.send(b"hello")
        assert far.poll(_WITHIN_MS), "no connection through the proxy"
        assert far.recv() == b"hello"
        far.send(b"hello")
        assert near.poll(_WITHIN_MS)
        assert near.recv() == b"hello"
        yield near, far


def measure(
    fault: LinkFault, server: ToxiproxyServer, link: Link, near: Socket, far: Socket
) -> Measured:
    """Inject, verify, send both ways for ``hold_s``, verify, heal, and count what came of it."""
    before = look(server, link).inside
    fault.inject()
    first_proof = fault.verify()
    sent, down_sent, until = 0, 0, time.monotonic() + fault.hold_s
    while time.monotonic() < until:
        near.send(frame(sent))
        down_sent += offer(far, frame(sent))
        sent += 1
        time.sleep(0.01)
    proof = fault.verify()
    assert proof.proven or not first_proof.proven, "proven once, it must stay proven"
    begun = time.monotonic()
    report = fault.heal()
    assert report.healed, report.detail
    up, first_ms = collect(near, far, begun)
    down, _ = collect(far, near, begun)
    return Measured(
        sent=sent,
        sent_down=down_sent,
        lost_up=sent - len(up),
        lost_down=down_sent - len(down),
        in_order=up == sorted(up) and down == sorted(down),
        survived=bool(before & look(server, link).inside),
        proof=proof.text,
        proven=proof.proven,
        heal_ms=report.ms,
        first_ms=first_ms,
    )


def offer(sender: Socket, data: bytes) -> bool:
    """False: there is no peer to send to."""
    try:
        sender.send(data, zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True


def frame(number: int) -> bytes:
    return b"%08d" % number + bytes(_FRAME)


def collect(sender: Socket, receiver: Socket, begun: float) -> tuple[list[int], float]:
    """Every number that ever arrives; a marker sent again until it passes ends the wait."""
    numbers: list[int] = []
    first_ms = -1.0
    deadline = time.monotonic() + _WITHIN_MS / 1e3
    while time.monotonic() < deadline:
        offer(sender, b"end")
        while receiver.poll(100):
            data = receiver.recv()
            if first_ms < 0:
                first_ms = (time.monotonic() - begun) * 1e3
            if data == b"end":
                return numbers, first_ms
            numbers.append(int(data[:8]))
    raise AssertionError("nothing passes after the heal")
