"""`Process`: one incarnation of a worker: its life, its I/O and its `Loop`.

    arrivals -> io -> inbound -> loop; its commands -> io -> links

A paused process (SIGSTOP) does nothing and hears everything when it goes on; a wedged one has a loop that
stands still while its I/O lives; a killed one never runs again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol, cast

import xxhash

from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.factory import make_scheduler
from engine.core.io_struct import ControlResp, TokenOut
from engine.core.peer import Connect, Inbound, KvTaken, SendKv, Tell
from engine.core.polling import PollFailures
from engine.core.scheduler import Scheduler
from engine.simulator.clock import MS_NS, VirtualClock
from engine.simulator.forward import RunningForward
from engine.simulator.history import History
from engine.simulator.loop import Loop
from engine.simulator.network import Network
from engine.simulator.ranks import Followers
from engine.simulator.resolver import SimResolver
from engine.simulator.schedule import Topology
from engine.simulator.sockets import Readable, Sockets
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.links import Links
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.route import AddressMap, Route
from engine.transfer.session import Identity

if TYPE_CHECKING:
    from engine.simulator.worker import Worker

DEAD_AFTER_NS = 1_500 * MS_NS
TICK_NS = 150 * MS_NS
"""The real I/O thread ticks every 10 ms and beats every 100 ms where rooms are open. Ten of these beats still
pass before anybody is judged dead. While a pair meets, `LOOKS_NS` make up for it; acks go after a read."""
LOOKS_NS = (0, 10 * MS_NS, 20 * MS_NS)

Handler = Callable[[list[bytes], int], None]


class Observer(Protocol):
    """The oracle, seen from a process."""

    def on_out(self, process: Process, out: TokenOut) -> None:
        """Something was told to the client."""
        ...

    def on_control(self, process: Process, answer: ControlResp) -> None:
        """An operator's call was answered."""
        ...

    def on_send(self, process: Process, send: SendKv) -> None:
        """Pages go out to the peer."""
        ...

    def on_forward_end(self, process: Process, forward: RunningForward) -> None:
        """A forward is over, or has stopped; its result is not taken in yet."""
        ...

    def after_step(self, process: Process, has_news: bool) -> None:
        """A scheduling step is over. ``has_news`` False: nothing came in, nothing ran, nothing went out."""
        ...


class SimDecodeLinks(DecodeLinks):
    """Can go on with meeting its peers without a whole tick, which costs by the session."""

    def advance(self, now_ns: int) -> None:
        self._advance(now_ns)

    def acknowledge(self, read: Sequence[object], now_ns: int) -> None:
        """The real I/O thread ticks behind every read, so that acks of pages do not wait."""
        if cast(object, self._kv) in read:
            for session in self.sessions():
                if session.num_unacked:
                    self.beat(session, now_ns)


class World:
    """What all processes share. The three makers are the product's own, unless somebody measures."""

    def __init__(self, clock: VirtualClock, network: Network, history: History) -> None:
        self.clock = clock
        self.network = network
        self.sockets = Sockets(network)
        self.history = history
        self.workers: dict[str, Worker] = {}
        self.observer: Observer
        self.tick_ns = TICK_NS
        self.make_core: Callable[[DisaggregationMode, SchedulerConfig], Scheduler] = make_scheduler
        self.prefill_links: type[PrefillLinks] = PrefillLinks
        self.decode_links: type[SimDecodeLinks] = SimDecodeLinks


class Process:
    """Everything that dies with a SIGKILL."""

    def __init__(
        self,
        mode: DisaggregationMode,
        config: SchedulerConfig,
        topology: Topology,
        world: World,
        route_of: Callable[[str], Route | None],
    ) -> None:
        self.core = world.make_core(mode, config)
        self._cores = [self.core]
        self._cores += [make_scheduler(mode, config) for _ in range(1, topology.num_ranks)]
        self.name = config.worker_name
        self.world = world
        self.is_alive = True
        self.is_paused = False
        self.disturbed_until_ns = 0
        self._clock = world.clock
        self._deferred: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self.set_poll_failures(topology.poll_failure_percent / 100)
        followers = Followers(self._cores[1:]) if topology.num_ranks > 1 else None
        self.loop = Loop(self, self.core, followers, topology)
        self._context = world.sockets.context(self.name, self._wake_io)
        self.links = self._make_links(mode, config, route_of)
        self._decode_links = self.links if isinstance(self.links, SimDecodeLinks) else None
        self._handlers: dict[Readable, Handler] = {}
        self._ready: list[Readable] = []
        self._told: dict[str, None] = {}
        self._look_is_due = False

    def _make_links(
        self,
        mode: DisaggregationMode,
        config: SchedulerConfig,
        route_of: Callable[[str], Route | None],
    ) -> Links:
        identity = Identity(
            worker_name=config.worker_name,
            incarnation=config.incarnation,
            fingerprint="sim",
            page_bytes=config.page_size,
            dead_after_ns=DEAD_AFTER_NS,
        )
        context, dial, pulse = self._context.as_zmq(), AddressMap({}), self.loop.pulse
        deliver = self.loop.put
        if mode is DisaggregationMode.PREFILL:
            address = f"{self.name}:2"
            return self.world.prefill_links(identity, address, dial, deliver, pulse, context)

        def make_resolver(peer: str) -> SimResolver:
            prefill = peer.partition(":")[0]
            link = self.world.network.between("bootstrap", self.name, prefill)
            return SimResolver(self._clock, link, lambda: route_of(prefill), self.look)

        address = f"{self.name}:3"
        return self.world.decode_links(
            identity, address, dial, deliver, pulse, context, make_resolver
        )

    # ---- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Workers do not tick in step with each other."""
        phase_ns = zlib.crc32(self.name.encode()) % self.world.tick_ns
        self._clock.after(phase_ns, self.run, self._tick)

    def set_poll_failures(self, probability: float) -> None:
        """Fail so many polls from now on; every rank draws the same numbers."""
        for core in self._cores:
            draw = Random(self.core.config.incarnation).random
            core.poll_failures = PollFailures(probability, draw)

    def kill(self) -> None:
        self.is_alive = False
        self._deferred.clear()
        self._context.kill()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Everything that should have happened meanwhile happens now, in its order."""
        if not self.is_paused:
            return
        self.is_paused = False
        self.disturbed_until_ns = max(self.disturbed_until_ns, self._clock.now_ns)
        deferred, self._deferred = self._deferred, []
        for what, args in deferred:
            self.run(what, *args)

    def wedge(self, for_ns: int) -> None:
        self.loop.wedged_until_ns = self._clock.now_ns + for_ns
        self.disturbed_until_ns = max(self.disturbed_until_ns, self.loop.wedged_until_ns)
        self.loop.wake()

    def run(self, what: Callable[..., None], *args: object) -> None:
        """Do it, unless the process is dead; later, if it is paused."""
        if self.is_paused:
            self._deferred.append((what, args))
        elif self.is_alive:
            what(*args)

    # ---- I/O thread ------------------------------------------------------------------------------

    def submit(self, message: Inbound) -> None:
        """A message of the HTTP side, through the I/O thread."""
        self.loop.put(message)

    def _wake_io(self, socket: Readable) -> None:
        self._ready.append(socket)
        if len(self._ready) == 1:
            self._clock.after(0, self.run, self._read_sockets)

    def _read_sockets(self) -> None:
        ready, self._ready = self._ready, []
        now_ns = self._clock.now_ns
        for socket in ready:
            handle = self._handlers.get(socket) or self._find_handler(socket)
            inbox = socket.inbox
            while inbox:
                handle(inbox.popleft(), now_ns)
        if self._decode_links is not None:
            self._decode_links.acknowledge(ready, now_ns)

    def _find_handler(self, socket: Readable) -> Handler:
        """As the links have it; what arrives for a socket that they have dropped is dropped."""
        found = cast("dict[Readable, Handler]", self.links.sockets())
        self._handlers = {socket: _drop} | found
        return self._handlers[socket]

    def _tick(self) -> None:
        if self._ready:
            self._read_sockets()  # what has come is read before anybody is judged dead
        self.links.tick(self._clock.now_ns)
        self._clock.after(self.world.tick_ns, self.run, self._tick)

    def look(self) -> None:
        """Something about a peer that is being met is new, and only a tick acts on it."""
        if not self._look_is_due:
            self._look_is_due = True
            for delay_ns in LOOKS_NS:
                self._clock.after(delay_ns, self.run, self._look)

    def _look(self) -> None:
        self._look_is_due = False
        if self._decode_links is not None:
            self._decode_links.advance(self._clock.now_ns)

    # ---- commands of the loop ----------------------------------------------------------------------

    def connect(self, command: Connect) -> None:
        self.links.connect(command)
        self.look()

    def tell(self, command: Tell) -> None:
        self.links.tell(command)
        self._told[command.peer] = None

    def send_kv(self, command: SendKv, data: bytes) -> None:
        self.links.send_kv(command, data, xxhash.xxh3_64_intdigest(data))
        self._told[command.peer] = None

    def taken(self, command: KvTaken) -> None:
        self.links.taken(command)
        self._told[command.peer] = None

    def flush(self) -> None:
        """Send to everybody who was told something; other beats go at their ticks."""
        now_ns = self._clock.now_ns
        for peer in self._told:
            session = self.links.session_of(peer)
            if session is None:
                continue
            if session.num_unacked:
                self.links.beat(session, now_ns)
            self.links.flush(session, now_ns)
        self._told.clear()


def _drop(frames: list[bytes], now_ns: int) -> None:
    """Nobody reads this."""
