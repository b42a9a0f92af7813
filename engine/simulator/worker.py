"""`Worker`: one address of the fleet, and the process that lives there now."""

from __future__ import annotations

from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.simulator.clock import MS_NS
from engine.simulator.process import Process, World
from engine.simulator.schedule import Topology
from engine.transfer.route import Route


class Worker:
    """A crash ends its process; a restart puts a new incarnation at the same address."""

    def __init__(self, name: str, topology: Topology, world: World) -> None:
        self.name = name
        self._topology = topology
        self._world = world
        self._num_starts = 0
        self._slowdown = 1
        self.process: Process | None = None

    @property
    def mode(self) -> DisaggregationMode:
        is_prefill = self.name.startswith("p")
        return DisaggregationMode.PREFILL if is_prefill else DisaggregationMode.DECODE

    def start(self) -> None:
        self._num_starts += 1
        self.process = Process(
            self.mode, self._config(), self._topology, self._world, self.route_of
        )
        self.process.loop.slowdown = self._slowdown
        self.process.start()

    def _config(self) -> SchedulerConfig:
        topology = self._topology
        is_prefill = self.mode is DisaggregationMode.PREFILL
        return SchedulerConfig(
            worker_name=self.name,
            incarnation=f"{self.name}.{self._num_starts}",
            num_pages=topology.prefill_pages if is_prefill else topology.decode_pages,
            page_size=topology.page_size,
            chunked_prefill_size=topology.chunk_tokens,
            max_running_requests=topology.max_running,
            max_queued_requests=topology.max_queued,
            num_staging_pages=topology.staging_pages,
            optimistic_prefill_attempts=topology.optimistic_attempts,
            request_waiting_timeout_ns=topology.waiting_timeout_ms * MS_NS,
            request_running_timeout_ns=topology.running_timeout_ms * MS_NS,
        )

    def route_of(self, prefill: str) -> Route | None:
        """What the bootstrap server of ``prefill`` answers; None from one that is down or stands still."""
        process = self._world.workers[prefill].process
        if process is None or process.is_paused:
            return None
        return Route(
            worker_name=prefill,
            incarnation=process.core.config.incarnation,
            control_host=prefill,
            control_port=2,
            page_size=self._topology.page_size,
            fingerprint="sim",
        )

    # ---- faults ----------------------------------------------------------------------------------

    def crash(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None

    def restart(self) -> None:
        if self.process is None:
            self.start()

    def pause(self) -> None:
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None:
            self.process.resume()

    def wedge(self, for_ms: int) -> None:
        if self.process is not None:
            self.process.wedge(for_ms * MS_NS)

    def slow(self, factor: int) -> None:
        """Forwards take ``factor`` times as long, also those of a successor."""
        self._slowdown = factor
        if self.process is not None:
            self.process.loop.slowdown = factor
