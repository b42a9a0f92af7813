"""`SchedulerLoop`: receive, schedule, forward, emit."""

from __future__ import annotations

import logging
import time

from engine.core.batch import ForwardResult, ForwardRunner, never
from engine.core.decode import DecodeScheduler
from engine.core.gauges import gauges
from engine.core.io_struct import GaugeSample
from engine.core.peer import Emit, Scatter, SendKv
from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler
from engine.server.args import AbortGranularity
from engine.server.inbox import ForwardWatch
from engine.server.io_thread import Command, IoThread, KvCommand
from engine.transfer.pulse import LoopPulse

log = logging.getLogger(__name__)
IDLE_WAIT_S = 0.02
GAUGE_PERIOD_NS = 250_000_000


class SchedulerLoop:
    """The one thread that touches the core and the tensors. One batch at a time, never overlapped."""

    def __init__(
        self,
        core: Scheduler,
        runner: ForwardRunner,
        io: IoThread,
        pulse: LoopPulse,
        granularity: AbortGranularity = AbortGranularity.LAYER,
    ) -> None:
        self._core = core
        self._runner = runner
        self._io = io
        self._pulse = pulse
        self._granularity = granularity
        self._stopping = False
        self._has_work = False
        self._gauges_due_ns = 0

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        """Until `stop`. Raises what the I/O thread died of, so that a deaf loop does not look alive."""
        while not self._stopping:
            # Before anything of the turn: a loop that stands still anywhere must grow old.
            self._pulse.begin_step(time.monotonic_ns())
            self.turn()
            if self._io.failure is not None:
                raise self._io.failure
        self._submit()

    def turn(self) -> None:
        """One scheduling step. The inbox is drained before the safe point and before results."""
        messages = self._io.inbox.drain(0.0 if self._has_work else IDLE_WAIT_S)
        self._pulse.begin_step(time.monotonic_ns())
        self._core.recv(messages, time.monotonic_ns())
        batch = self._core.get_next_batch_to_run(time.monotonic_ns())
        self._submit()
        if batch is not None:
            result = self._forward(batch)
            self._core.recv(self._io.inbox.drain(), time.monotonic_ns())
            self._core.process_batch_result(batch, result, time.monotonic_ns())
            self._submit()
        self._look_after(has_batch=batch is not None)
        self._pulse.end_step(time.monotonic_ns())

    def _forward(self, batch: ScheduleBatch) -> ForwardResult:
        if self._granularity is AbortGranularity.CHUNK:
            return self._runner.forward(batch.items, never)
        return self._runner.forward(batch.items, ForwardWatch(batch, self._io.inbox).should_stop)

    def _look_after(self, has_batch: bool) -> None:
        core = self._core
        waiting = isinstance(core, DecodeScheduler) and core.has_arrivals()
        self._has_work = has_batch or waiting
        self._pulse.rooms_open = len(core.rooms)
        now_ns = time.monotonic_ns()
        if now_ns >= self._gauges_due_ns:
            self._gauges_due_ns = now_ns + GAUGE_PERIOD_NS
            core.emit(Emit(message=self._sample()))
            self._submit()

    def _sample(self) -> GaugeSample:
        values = gauges(self._core) | self._link_gauges()
        links = self._io.links
        if links is None:
            return GaugeSample(values=values)
        return GaugeSample(
            values=values, peers=links.peer_samples(), peer_changes=links.peer_changes()
        )

    def _link_gauges(self) -> dict[str, float]:
        links = self._io.links
        if links is None:
            return {"malformed_frames": float(self._io.num_malformed)}
        counters = links.counters
        return {
            "malformed_frames": float(counters.malformed + self._io.num_malformed),
            "stale_frames": float(counters.stale),
            "duplicate_frames": float(counters.duplicates),
            "sessions_opened": float(counters.sessions_opened),
            "sessions_lost": float(counters.sessions_lost),
            "link_reconnects": float(counters.reconnects),
            "refused_frames": float(counters.refused),
            "kv_arrived_bytes": float(links.num_arrived_bytes()),
            "inbox_messages": float(len(self._io.inbox)),
        }

    def _submit(self) -> None:
        """Do the core's effects in order: tensors here and now, the rest on the I/O thread."""
        commands: list[Command] = []
        for effect in self._core.take_effects():
            match effect:
                case Scatter(page_ids=page_ids, data=data):
                    self._runner.scatter_pages(page_ids, data)
                case SendKv():
                    data = self._runner.gather_pages(effect.page_ids)
                    commands.append(KvCommand(send=effect, data=data))
                case _:
                    commands.append(effect)
        self._io.submit(commands)
