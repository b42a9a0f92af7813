"""The virtual wires do what zmq over toxiproxy does."""

from __future__ import annotations

import pytest
import zmq

from engine.simulator.clock import MS_NS, VirtualClock
from engine.simulator.network import LaneMode, Link, Network, Wire
from engine.simulator.sockets import HIGH_WATER_MARK, SimContext, Sockets


class Bench:
    """One decode that dials one prefill's control port."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        network = Network(self.clock, {"control": Wire(MS_NS, 1)})
        self.link: Link = network.link("control:p0-d0")
        self.sockets = Sockets(network)
        self.server_context = self.context("p0")
        self.server = self.server_context.socket(zmq.ROUTER)
        self.server.bind("tcp://p0:2")
        self.client = self.context("d0").socket(zmq.DEALER)
        self.client.connect("tcp://p0:2")

    def context(self, worker: str) -> SimContext:
        return self.sockets.context(worker, lambda _: None)

    def wait(self, ms: int) -> None:
        assert self.clock.run_until(self.clock.now_ns + ms * MS_NS, 1000)

    def heard(self) -> list[bytes]:
        return [frames[1] for frames in self.server.inbox]


def test_frames_arrive_in_order_after_a_stall() -> None:
    bench = Bench()
    bench.client.send_multipart((b"1",))
    bench.wait(10)
    bench.link.forward.mode = LaneMode.STALL
    bench.client.send_multipart((b"2",))
    bench.client.send_multipart((b"3",))
    bench.wait(1000)
    assert bench.heard() == [b"1"]
    bench.link.heal()
    bench.wait(10)
    assert bench.heard() == [b"1", b"2", b"3"]


def test_blackhole_swallows_and_closes_when_healed() -> None:
    bench = Bench()
    bench.wait(10)
    (before,) = bench.server.routes
    bench.link.forward.mode = LaneMode.BLACKHOLE
    bench.client.send_multipart((b"lost",))
    bench.wait(1000)
    bench.link.heal()
    assert not bench.server.routes
    bench.client.send_multipart((b"kept",))
    bench.wait(200)
    assert bench.heard() == [b"kept"]
    (after,) = bench.server.routes
    assert after != before, "a new connection has a new routing id"
    with pytest.raises(zmq.ZMQError):
        bench.server.send_multipart((before, b"to nobody"))


def test_a_restarted_process_gets_what_its_predecessor_was_sent() -> None:
    bench = Bench()
    bench.wait(10)
    bench.server_context.kill()
    bench.wait(10)
    bench.client.send_multipart((b"for the dead",))
    server = bench.context("p0").socket(zmq.ROUTER)
    server.bind("tcp://p0:2")
    bench.wait(300)
    assert [frames[1] for frames in server.inbox] == [b"for the dead"]


def test_a_socket_that_cannot_connect_fills_up() -> None:
    bench = Bench()
    bench.link.refusing = True
    bench.link.reset()
    for _ in range(HIGH_WATER_MARK):
        bench.client.send_multipart((b"x",))
    with pytest.raises(zmq.Again):
        bench.client.send_multipart((b"one too many",))


def test_answers_take_the_way_back() -> None:
    bench = Bench()
    bench.client.send_multipart((b"question",))
    bench.wait(10)
    (frames,) = bench.server.inbox
    bench.link.forward.mode = LaneMode.BLACKHOLE
    bench.server.send_multipart((frames[0], b"answer"))
    bench.wait(10)
    assert list(bench.client.inbox) == [[b"answer"]]
