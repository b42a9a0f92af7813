"""`Loop`: the scheduler loop of a process, in virtual time.

    turn: recv, get_next_batch, effects, forward (takes time, asks between layers),
          recv, process_batch_result, effects

as in `engine.server.scheduler_loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.core.batch import Cancelled, ForwardItem, ForwardResult
from engine.core.cancellation import is_abort
from engine.core.decode import DecodeScheduler
from engine.core.io_struct import ControlResp, TokenOut
from engine.core.peer import Connect, Effect, Emit, Inbound, KvTaken, Scatter, SendKv, Tell
from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler
from engine.simulator.clock import MS_NS
from engine.simulator.forward import ASKS_A_LAYER, RunningForward
from engine.simulator.ranks import Followers
from engine.simulator.runner import HashRunner
from engine.simulator.schedule import Topology
from engine.transfer.pulse import LoopPulse

if TYPE_CHECKING:
    from engine.simulator.process import Process

IDLE_TURN_NS = 200 * MS_NS
"""The real loop looks around every 20 ms; what it looks for then, deadlines, are longer."""
TURN_NS = 200_000


class Loop:
    """Touches the core and the pages; everything else is its process's."""

    def __init__(
        self, process: Process, core: Scheduler, followers: Followers | None, topology: Topology
    ) -> None:
        self.core = core
        self._decode = core if isinstance(core, DecodeScheduler) else None
        self.followers = followers
        self.runner = HashRunner(core.config.num_pages, core.config.page_size)
        self.slowdown = 1
        self.pulse = LoopPulse()
        self.forward: RunningForward | None = None
        self.wedged_until_ns = 0
        self._topology = topology
        self._by_layer = topology.num_layers if followers is None else 0
        self._process = process
        self._clock = process.world.clock
        self._inbound: list[Inbound] = []
        self._turn_is_due = False
        self._timer_is_set = False
        self._is_busy = False
        self._has_news = False
        self._num_forwards = 0

    def put(self, message: Inbound) -> None:
        """Something has arrived; a running forward asks about it when it asks next."""
        self._inbound.append(message)
        forward = self.forward
        if forward is None:
            self.wake()
        elif forward.ask_every_ns and is_abort(message):
            self._plan_ask(forward, self._clock.now_ns)

    def wake(self) -> None:
        if not self._turn_is_due and not self._is_busy:
            self._turn_is_due = True
            self._clock.after(0, self._process.run, self._turn)

    def _on_timer(self) -> None:
        self._timer_is_set = False
        self.wake()

    # ---- a step, up to its forward ------------------------------------------------------------------

    def _turn(self) -> None:
        self._turn_is_due = False
        self._is_busy = True  # effects may deliver: the next turn waits for the end of this one
        now_ns = self._clock.now_ns
        self.pulse.begin_step(now_ns)
        if now_ns < self.wedged_until_ns:
            self._clock.at(self.wedged_until_ns, self._process.run, self._turn)
            return
        self._recv(now_ns)
        batch = self.core.get_next_batch_to_run(now_ns)
        if self.followers is not None:
            self.followers.schedule(batch, now_ns)
        self._do_effects()
        if batch is None:
            self._end_turn(has_batch=False)
        else:
            self._begin_forward(batch, now_ns)

    def _recv(self, now_ns: int) -> None:
        taken, self._inbound = self._inbound, []
        if not taken:
            return
        self._has_news = True
        self.core.recv(taken, now_ns)
        if self.followers is not None:
            self.followers.recv(taken, now_ns)

    # ---- the forward ---------------------------------------------------------------------------------

    def _begin_forward(self, batch: ScheduleBatch, now_ns: int) -> None:
        took_ns = self._forward_ns(batch.items)
        ask_every_ns = took_ns // (ASKS_A_LAYER * self._by_layer) if self._by_layer else 0
        result = self.runner.forward(batch.items)
        forward = RunningForward(batch, result, now_ns, took_ns, ask_every_ns)
        self.forward = forward
        self._num_forwards += 1
        if ask_every_ns:
            self._plan_asks(forward)
            if self._topology.cancel_every and not self._num_forwards % self._topology.cancel_every:
                self._clock.after(took_ns // 2, self._process.run, self._cancel, forward)
                return
        self._clock.after(took_ns, self._process.run, self._end_forward, forward, result)

    def _forward_ns(self, items: Sequence[ForwardItem]) -> int:
        num_tokens = sum(len(item.input_ids) for item in items)
        step_ns = self._topology.step_ms * MS_NS + num_tokens * self._topology.token_us * 1000
        return step_ns * self.slowdown

    def _plan_asks(self, forward: RunningForward) -> None:
        if any(map(is_abort, self._inbound)):
            self._plan_ask(forward, forward.started_ns)
        for deadline_ns in forward.deadlines_ns():
            self._plan_ask(forward, deadline_ns)

    def _plan_ask(self, forward: RunningForward, now_ns: int) -> None:
        self._clock.at(forward.next_ask_ns(now_ns), self._process.run, self._ask, forward)

    def _ask(self, forward: RunningForward) -> None:
        now_ns = self._clock.now_ns
        if forward is not self.forward:
            return
        if now_ns < self.wedged_until_ns:
            self._clock.at(self.wedged_until_ns, self._process.run, self._ask, forward)
        elif forward.should_stop(self._inbound, now_ns):
            self._cancel(forward)

    def _cancel(self, forward: RunningForward) -> None:
        """Stop between two layers. What it has written by then is worth nothing."""
        if forward is self.forward:
            self.runner.spoil(forward.batch.items)
            num_layers_run = forward.num_layers_run(self._clock.now_ns)
            self._end_forward(forward, Cancelled(num_layers_run=num_layers_run))

    def _end_forward(self, forward: RunningForward, result: ForwardResult) -> None:
        now_ns = self._clock.now_ns
        if forward is not self.forward:
            return
        if now_ns < self.wedged_until_ns:
            again_ns = self.wedged_until_ns
            self._clock.at(again_ns, self._process.run, self._end_forward, forward, result)
            return
        self.forward = None
        self._process.world.observer.on_forward_end(self._process, forward)
        self._recv(now_ns)
        self.core.process_batch_result(forward.batch, result, now_ns)
        if self.followers is not None:
            self.followers.process(forward.batch, result, now_ns)
        self._do_effects()
        self._end_turn(has_batch=True)

    def _end_turn(self, has_batch: bool) -> None:
        core, num_rooms = self.core, len(self.core.rooms)
        self._is_busy = False
        self.pulse.rooms_open = num_rooms
        self.pulse.end_step(self._clock.now_ns)
        if self.followers is not None and self._has_news:
            self.followers.compare_state(core)
        self._process.world.observer.after_step(self._process, self._has_news)
        self._has_news = has_batch
        if has_batch or (self._decode is not None and self._decode.has_arrivals()):
            self._turn_is_due = True
            self._clock.after(TURN_NS, self._process.run, self._turn)
        elif self._inbound:
            self.wake()
        elif (core.reqs or num_rooms) and not self._timer_is_set:
            self._timer_is_set = True
            self._clock.after(IDLE_TURN_NS, self._process.run, self._on_timer)

    # ---- effects -------------------------------------------------------------------------------------

    def _do_effects(self) -> None:
        effects = self.core.take_effects()
        if self.followers is not None:
            self.followers.compare_effects(effects)
        if effects:
            self._has_news = True
            for effect in effects:
                self._do(effect)
            self._process.flush()

    def _do(self, effect: Effect) -> None:
        observer = self._process.world.observer
        match effect:
            case Emit(message=TokenOut() as out):
                observer.on_out(self._process, out)
            case Emit(message=ControlResp() as answer):
                observer.on_control(self._process, answer)
            case Emit():
                pass
            case Scatter(page_ids=page_ids, data=data):
                self.runner.scatter_pages(page_ids, data)
            case SendKv():
                observer.on_send(self._process, effect)
                data = self.runner.gather_pages(effect.page_ids)
                self._process.send_kv(effect, data)
            case KvTaken():
                self._process.taken(effect)
            case Tell():
                self._process.tell(effect)
            case Connect():
                self._process.connect(effect)
