"""`Meter`: the product's own schedulers and links, with a clock beside them.

Step times are CPU times of this machine: the one thing here that no seed decides.
"""

from __future__ import annotations

import time
from collections import Counter

from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.decode import DecodeScheduler
from engine.core.peer import PeerLost
from engine.core.prefill import PrefillScheduler
from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler
from engine.simulator.clock import START_NS
from engine.simulator.process import SimDecodeLinks, World
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.session import Session

SECOND_NS = 1_000_000_000
BEAT_NS = 100_000_000
"""As often as the real one beats."""
_NOW_NS = time.thread_time_ns


class Meter:
    """``step_ns``: times of steps by the length of the queue. Beats are counted by virtual second."""

    def __init__(self) -> None:
        self.step_ns: dict[int, list[int]] = {}
        self.beats: Counter[int] = Counter()
        self.beat_bytes: Counter[int] = Counter()
        self.lost_ns: dict[str, list[int]] = {}

    def attach(self, world: World) -> None:
        """From now on, what the world makes is measured."""
        world.tick_ns = BEAT_NS
        world.make_core = self._make_core
        world.prefill_links, world.decode_links = self._make_links(world)

    def _make_core(self, mode: DisaggregationMode, config: SchedulerConfig) -> Scheduler:
        meter = self

        class MeteredPrefill(PrefillScheduler):
            def get_next_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
                queued, began_ns = self.num_queued(), _NOW_NS()
                batch = super().get_next_batch_to_run(now_ns)
                meter.note_step(queued, _NOW_NS() - began_ns)
                return batch

            def _on_peer_lost(self, message: PeerLost, now_ns: int) -> None:
                meter.note_lost(message.peer, now_ns)
                super()._on_peer_lost(message, now_ns)

        class MeteredDecode(DecodeScheduler):
            def get_next_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
                queued, began_ns = self.num_queued(), _NOW_NS()
                batch = super().get_next_batch_to_run(now_ns)
                meter.note_step(queued, _NOW_NS() - began_ns)
                return batch

            def _on_peer_lost(self, message: PeerLost, now_ns: int) -> None:
                meter.note_lost(message.peer.partition(":")[0], now_ns)
                super()._on_peer_lost(message, now_ns)

        is_prefill = mode is DisaggregationMode.PREFILL
        return MeteredPrefill(config) if is_prefill else MeteredDecode(config)

    def _make_links(self, world: World) -> tuple[type[PrefillLinks], type[SimDecodeLinks]]:
        meter = self

        class MeteredPrefillLinks(PrefillLinks):
            _in_beat = False

            def beat(self, session: Session, now_ns: int) -> None:
                self._in_beat = True
                super().beat(session, now_ns)
                self._in_beat = False

            def _send_control(self, session: Session, parts: tuple[bytes, ...]) -> bool:
                if self._in_beat:
                    meter.note_beat(world.clock.now_ns, len(parts[0]))
                return super()._send_control(session, parts)

        class MeteredDecodeLinks(SimDecodeLinks):
            _in_beat = False

            def beat(self, session: Session, now_ns: int) -> None:
                self._in_beat = True
                super().beat(session, now_ns)
                self._in_beat = False

            def _send_control(self, session: Session, parts: tuple[bytes, ...]) -> bool:
                if self._in_beat:
                    meter.note_beat(world.clock.now_ns, len(parts[0]))
                return super()._send_control(session, parts)

        return MeteredPrefillLinks, MeteredDecodeLinks

    def note_step(self, num_queued: int, took_ns: int) -> None:
        bucket = 10 ** (len(str(num_queued)) - 1) if num_queued else 0
        self.step_ns.setdefault(bucket, []).append(took_ns)

    def note_lost(self, worker: str, now_ns: int) -> None:
        self.lost_ns.setdefault(worker, []).append(now_ns)

    def note_beat(self, now_ns: int, num_bytes: int) -> None:
        second = (now_ns - START_NS) // SECOND_NS
        self.beats[second] += 1
        self.beat_bytes[second] += num_bytes
