"""Two cores and their real links, with a toxiproxy in control and kv, all pumped by one thread."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import xxhash
import zmq

from chaos.codes import LinkKind
from chaos.links import Endpoint, Link, LinkName
from chaos.ports import PortPool
from chaos.toxiproxy.server import ToxiproxyServer
from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.peer import Connect, Inbound, KvTaken, PeerLost, Tell
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.links import Links
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Route
from engine.transfer.session import Identity
from tests.engine.core.twin import (
    PAGE,
    Worker,
    broken_laws,
    expected_tokens,
    make_config,
    make_request,
)
from tests.engine.transfer.test_links import RouteServer

HOST = "127.0.0.1"
DEAD_AFTER_NS = 1_500_000_000
MAX_NEW = 4


class LiveWorker:
    """A core whose links are real."""

    def __init__(
        self,
        mode: DisaggregationMode,
        config: SchedulerConfig,
        make_links: Callable[[Identity, Callable[[Inbound], None], LoopPulse], Links],
    ) -> None:
        self.worker = Worker(mode, config)
        self.lost: list[PeerLost] = []
        self.pulse = LoopPulse(rooms_open=1)
        self.is_loop_paused = False
        identity = Identity(
            worker_name=config.worker_name,
            incarnation=config.incarnation,
            fingerprint="f",
            page_bytes=PAGE,
            dead_after_ns=DEAD_AFTER_NS,
        )
        self.links = make_links(identity, self._deliver, self.pulse)

    def _deliver(self, message: Inbound) -> None:
        if isinstance(message, PeerLost):
            self.lost.append(message)
        self.worker.inbox.append(message)

    def turn(self) -> None:
        """The I/O thread's turn, then the loop's."""
        now_ns = time.monotonic_ns()
        for socket, handle in self.links.sockets().items():
            while not socket.closed:
                try:
                    frames = socket.recv_multipart(zmq.DONTWAIT)
                except zmq.ZMQError:
                    break
                handle(frames, now_ns)
        if not self.is_loop_paused:
            self.worker.step(time.monotonic_ns())
            assert broken_laws(self.worker.core) == []
        while self.worker.sent:
            self._command(self.worker.sent.popleft())
        self.links.tick(time.monotonic_ns())

    def _command(self, sent: object) -> None:
        match sent:
            case Connect():
                self.links.connect(sent)
            case Tell():
                self.links.tell(sent)
            case KvTaken():
                self.links.taken(sent)
            case (send, bytes() as data):
                self.links.send_kv(send, data, xxhash.xxh3_64_intdigest(data))


class LivePair:
    """``server`` holds the proxies ``control:p0-d0`` and ``kv:p0-d0``."""

    def __init__(self, serve: Callable[..., ToxiproxyServer], ports: PortPool) -> None:
        self.route = RouteServer()
        self.prompts: dict[str, tuple[int, ...]] = {}
        through: dict[str, str] = {}
        dial = AddressMap(through)
        self.prefill = LiveWorker(
            DisaggregationMode.PREFILL,
            make_config("p0", 400, num_staging_pages=64, max_running_requests=8),
            lambda me, deliver, pulse: PrefillLinks(me, f"{HOST}:*", dial, deliver, pulse),
        )
        self.decode = LiveWorker(
            DisaggregationMode.DECODE,
            make_config("d0", 400, max_running_requests=8),
            lambda me, deliver, pulse: DecodeLinks(me, f"{HOST}:*", dial, deliver, pulse),
        )
        assert isinstance(self.prefill.links, PrefillLinks)
        assert isinstance(self.decode.links, DecodeLinks)
        control = self.prefill.links.control_endpoint.removeprefix("tcp://")
        links = []
        for kind, target in (
            (LinkKind.CONTROL, control),
            (LinkKind.KV, self.decode.links.kv_address),
        ):
            listen = ports.take()
            ports.release(listen)
            through[f"{kind}:{target}"] = str(listen)
            links.append(make_link(kind, listen, target))
        self.server = serve(*links)
        self.route.route = Route(
            worker_name="p0",
            incarnation="p0-1",
            control_host=HOST,
            control_port=int(control.rpartition(":")[2]),
            page_size=PAGE,
            fingerprint="f",
        )

    @property
    def ends(self) -> tuple[LiveWorker, LiveWorker]:
        return (self.prefill, self.decode)

    def ask(self, num_tokens: int = 20) -> str:
        number = len(self.prompts)
        rid, host, port = f"r{number}", *self.route.address.split(":")
        prompt = tuple(1 + (number * 31 + at * 7) % 200 for at in range(num_tokens))
        self.prompts[rid] = prompt
        request = make_request(rid, number, prompt, MAX_NEW, time.monotonic_ns())
        request = msgspec.structs.replace(request, bootstrap_host=host, bootstrap_port=int(port))
        for end in self.ends:
            end.worker.inbox.append(request)
        return rid

    def is_answered(self) -> bool:
        return all(end.worker.answers(rid) for end in self.ends for rid in self.prompts)

    def run(self, done: Callable[[], bool], within_s: float, ask_every_s: float = 0.0) -> None:
        """Turn both ends until ``done``; a new request every now and then."""
        deadline = time.monotonic() + within_s
        next_s = time.monotonic()
        while not done():
            assert time.monotonic() < deadline, self.unanswered()
            if ask_every_s and time.monotonic() >= next_s:
                next_s += ask_every_s
                self.ask()
            for end in self.ends:
                end.turn()
            self._wait()

    def run_for(self, seconds: float, ask_every_s: float = 0.0) -> None:
        until = time.monotonic() + seconds
        self.run(lambda: time.monotonic() >= until, seconds + 5, ask_every_s)

    def meet(self) -> None:
        """The first request brings the session up."""
        self.ask()
        self.run(self.is_answered, within_s=8)

    def _wait(self) -> None:
        poller = zmq.Poller()
        for end in self.ends:
            for socket in end.links.sockets():
                poller.register(socket, zmq.POLLIN)
        poller.poll(3)

    def unanswered(self) -> list[str]:
        return [
            f"{rid} at {end.worker.core.config.worker_name}"
            for end in self.ends
            for rid in self.prompts
            if not end.worker.answers(rid)
        ]

    def assert_nothing_was_lost(self) -> None:
        """Everybody completed with the right tokens, in one session, and nothing is held."""
        for end in self.ends:
            assert end.lost == []
            assert end.links.counters.sessions_opened == 1
            for rid in self.prompts:
                (answer,) = end.worker.answers(rid)
                assert answer.finish is not None
                assert answer.finish.type == "length", (rid, answer.finish)
            view = end.worker.core.ledger_view()
            assert view.holders == ()
            assert view.rooms_open == 0
        for rid, prompt in self.prompts.items():
            assert self.decode.worker.tokens(rid) == expected_tokens(prompt, MAX_NEW)

    def close(self) -> None:
        for end in self.ends:
            end.links.close()
        self.route.close()


def make_link(kind: LinkKind, listen: Endpoint, target: str) -> Link:
    host, _, port = target.rpartition(":")
    name = LinkName(kind=kind, prefill="p0", decode="d0")
    return Link(name=name, listen=listen, upstream=Endpoint(host, int(port)))
