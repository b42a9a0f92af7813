"""`Process`: one incarnation of a worker: core, runner, links, and the loop around them.

    arrivals -> io -> inbound -> turn: recv, get_next_batch, effects,
                                 forward (takes time), recv, process_batch_result, effects

as in `engine.server.scheduler_loop` and `engine.server.io_thread`.

A paused process (SIGSTOP) does nothing and hears everything when it goes on; a wedged one has a loop that
stands still while its I/O lives; a killed one never runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import xxhash

from engine.core.batch import ForwardItem
from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.decode import DecodeScheduler
from engine.core.factory import make_scheduler
from engine.core.io_struct import TokenLogprob, TokenOut
from engine.core.peer import Connect, Emit, Inbound, KvTaken, Scatter, SendKv, Tell
from engine.core.schedule_batch import ScheduleBatch
from engine.simulator.clock import MS_NS, VirtualClock
from engine.simulator.history import History
from engine.simulator.network import Network
from engine.simulator.resolver import SimResolver
from engine.simulator.runner import HashRunner
from engine.simulator.schedule import Topology
from engine.simulator.sockets import SimSocket, Sockets
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.links import Links
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Route
from engine.transfer.session import Identity

if TYPE_CHECKING:
    from engine.simulator.worker import Worker

DEAD_AFTER_NS = 1_500 * MS_NS
TICK_NS = 100 * MS_NS
"""The real I/O thread ticks every 10 ms; the beats, which matter, go every 100 ms at most."""
IDLE_TURN_NS = 50 * MS_NS
TURN_NS = 200_000


class Observer(Protocol):
    """The oracle, seen from a process."""

    def on_out(self, process: Process, out: TokenOut) -> None:
        """Something was told to the client."""
        ...

    def on_send(self, process: Process, send: SendKv) -> None:
        """Pages go out to the peer."""
        ...

    def after_step(self, process: Process) -> None:
        """A scheduling step is over."""
        ...


class World:
    """What all processes share."""

    def __init__(self, clock: VirtualClock, network: Network, history: History) -> None:
        self.clock = clock
        self.network = network
        self.sockets = Sockets(network)
        self.history = history
        self.workers: dict[str, Worker] = {}
        self.observer: Observer


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
        self.core = make_scheduler(mode, config)
        self.runner = HashRunner(config.num_pages, config.page_size)
        self.name = config.worker_name
        self.slowdown = 1
        self.is_alive = True
        self.is_paused = False
        self._world = world
        self._clock = world.clock
        self._topology = topology
        self._inbound: list[Inbound] = []
        self._deferred: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self._pulse = LoopPulse()
        self._context = world.sockets.context(self.name, self._wake_io)
        self.links = self._make_links(mode, config, route_of)
        self._io_is_due = False
        self._turn_is_due = False
        self._timer_is_set = False
        self._is_busy = False
        self._wedged_until_ns = 0

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
        context, dial = self._context.as_zmq(), AddressMap({})
        if mode is DisaggregationMode.PREFILL:
            address = f"{self.name}:2"
            return PrefillLinks(identity, address, dial, self._deliver, self._pulse, context)

        def make_resolver(peer: str) -> SimResolver:
            prefill = peer.partition(":")[0]
            link = self._world.network.between("bootstrap", self.name, prefill)
            return SimResolver(self._clock, link, lambda: route_of(prefill))

        address = f"{self.name}:3"
        return DecodeLinks(
            identity, address, dial, self._deliver, self._pulse, context, make_resolver
        )

    # ---- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._tick()

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
        deferred, self._deferred = self._deferred, []
        for what, args in deferred:
            self.run(what, *args)

    def wedge(self, for_ns: int) -> None:
        self._wedged_until_ns = self._clock.now_ns + for_ns
        self._wake_loop()

    def run(self, what: Callable[..., None], *args: object) -> None:
        """Do it, unless the process is dead; later, if it is paused."""
        if self.is_paused:
            self._deferred.append((what, args))
        elif self.is_alive:
            what(*args)

    # ---- I/O thread ------------------------------------------------------------------------------

    def submit(self, message: Inbound) -> None:
        """A message of the HTTP side, through the I/O thread."""
        self._deliver(message)

    def _deliver(self, message: Inbound) -> None:
        self._inbound.append(message)
        self._wake_loop()

    def _wake_io(self) -> None:
        if not self._io_is_due:
            self._io_is_due = True
            self._clock.after(0, self.run, self._read_sockets)

    def _read_sockets(self) -> None:
        if not self._io_is_due:
            return
        self._io_is_due = False
        now_ns = self._clock.now_ns
        for socket, handle in self.links.sockets().items():
            inbox = cast(SimSocket, socket).inbox
            while inbox:
                handle(inbox.popleft(), now_ns)

    def _tick(self) -> None:
        self._read_sockets()  # what has come is read before anybody is judged dead
        self.links.tick(self._clock.now_ns)
        self._clock.after(TICK_NS, self.run, self._tick)

    # ---- loop ------------------------------------------------------------------------------------

    def _wake_loop(self) -> None:
        if not self._turn_is_due and not self._is_busy:
            self._turn_is_due = True
            self._clock.after(0, self.run, self._turn)

    def _on_timer(self) -> None:
        self._timer_is_set = False
        self._wake_loop()

    def _turn(self) -> None:
        """One scheduling step, up to its forward."""
        self._turn_is_due = False
        self._is_busy = True  # effects may deliver: the next turn waits for the end of this one
        now_ns = self._clock.now_ns
        self._pulse.begin_step(now_ns)
        if now_ns < self._wedged_until_ns:
            self._clock.at(self._wedged_until_ns, self.run, self._turn)
            return
        self.core.recv(self._take_inbound(), now_ns)
        batch = self.core.get_next_batch_to_run(now_ns)
        self._do_effects()
        if batch is None:
            self._end_turn(has_batch=False)
            return
        result = self.runner.forward(batch.items)
        self._clock.after(self._forward_ns(batch.items), self.run, self._end_forward, batch, result)

    def _forward_ns(self, items: Sequence[ForwardItem]) -> int:
        num_tokens = sum(len(item.input_ids) for item in items)
        step_ns = self._topology.step_ms * MS_NS + num_tokens * self._topology.token_us * 1000
        return step_ns * self.slowdown

    def _end_forward(self, batch: ScheduleBatch, result: list[TokenLogprob | None]) -> None:
        now_ns = self._clock.now_ns
        if now_ns < self._wedged_until_ns:
            self._clock.at(self._wedged_until_ns, self.run, self._end_forward, batch, result)
            return
        self.core.recv(self._take_inbound(), now_ns)
        self.core.process_batch_result(batch, result, now_ns)
        self._do_effects()
        self._end_turn(has_batch=True)

    def _end_turn(self, has_batch: bool) -> None:
        core = self.core
        self._is_busy = False
        self._pulse.rooms_open = len(core.rooms)
        self._pulse.end_step(self._clock.now_ns)
        self._world.observer.after_step(self)
        if has_batch or (isinstance(core, DecodeScheduler) and core.has_arrivals()):
            self._turn_is_due = True
            self._clock.after(TURN_NS, self.run, self._turn)
        elif self._inbound:
            self._wake_loop()
        elif (core.reqs or len(core.rooms)) and not self._timer_is_set:
            self._timer_is_set = True
            self._clock.after(IDLE_TURN_NS, self.run, self._on_timer)

    def _take_inbound(self) -> list[Inbound]:
        taken, self._inbound = self._inbound, []
        return taken

    def _do_effects(self) -> None:
        has_commands = False
        for effect in self.core.take_effects():
            match effect:
                case Emit(message=TokenOut() as out):
                    self._world.observer.on_out(self, out)
                case Emit():
                    pass
                case Scatter(page_ids=page_ids, data=data):
                    self.runner.scatter_pages(page_ids, data)
                case _:
                    has_commands = True
                    self._command(effect)
        if has_commands:
            self.links.tick(self._clock.now_ns)

    def _command(self, effect: Connect | Tell | SendKv | KvTaken) -> None:
        match effect:
            case KvTaken():
                self.links.taken(effect)
            case Connect():
                self.links.connect(effect)
            case Tell():
                self.links.tell(effect)
            case SendKv():
                self._world.observer.on_send(self, effect)
                data = self.runner.gather_pages(effect.page_ids)
                self.links.send_kv(effect, data, xxhash.xxh3_64_intdigest(data))
