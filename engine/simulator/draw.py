"""One number -> one schedule."""

from __future__ import annotations

from random import Random

import msgspec

from engine.simulator.acts import draw_acts
from engine.simulator.faults import draw_faults
from engine.simulator.schedule import VERSION, Schedule, Topology
from engine.simulator.workload import draw_requests

HORIZON_MS = 10_000


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large the drawn schedules are."""

    num_prefill: int = 2
    num_decode: int = 2
    num_requests: int = 30


def draw_schedule(seed: int, size: Size) -> Schedule:
    """The schedule of a seed: topology, workload and faults."""
    random = Random(seed)
    topology = _draw_topology(random, size)
    faults = draw_faults(random, topology, HORIZON_MS)
    requests = draw_requests(random, topology, size.num_requests, HORIZON_MS, faults)
    return Schedule(
        version=VERSION,
        seed=seed,
        horizon_ms=HORIZON_MS,
        topology=topology,
        requests=requests,
        faults=faults,
        acts=draw_acts(random, topology, requests, HORIZON_MS),
    )


def _draw_topology(random: Random, size: Size) -> Topology:
    page_size = random.choice((4, 8))
    chunk_pages = random.choice((2, 4))
    topology = Topology(
        num_prefill=size.num_prefill,
        num_decode=size.num_decode,
        page_size=page_size,
        chunk_tokens=chunk_pages * page_size,
        prefill_pages=random.choice((16, 24, 48)),
        decode_pages=random.choice((16, 24, 48)),
        staging_pages=random.choice((3, 8, 32)),
        max_running=random.choice((2, 3, 6)),
        max_queued=random.choice((0, 0, 0, 4)),
        step_ms=random.choice((2, 5, 12)),
        token_us=random.choice((100, 500, 1500)),
        delay_us=random.choice((50, 300, 2000)),
        kv_delay_us=random.choice((300, 5000, 60_000)),
        jitter_us=random.choice((10, 200, 3000)),
        num_layers=random.choice((0, 1, 4, 4, 30)),
        cancel_every=random.choice((0, 0, 0, 7, 3)),
        num_ranks=random.choice((*(1,) * 22, 2, 3)),
        waiting_timeout_ms=random.choice((0, 0, 0, 0, 0, random.randint(200, 3000))),
        running_timeout_ms=random.choice((0, 0, 0, 0, 0, random.randint(100, 3000))),
        optimistic_attempts=random.choice((0, 0, 0, 1, 2, 3)),
        poll_failure_percent=random.choice((*(0,) * 9, 4)),
    )
    return _with_fair_timeouts(topology)


def _with_fair_timeouts(topology: Topology) -> Topology:
    """No timeout is so short that a request on an idle pair must miss it: a probe could prove nothing."""
    least_ms = topology.kv_delay_us * 10 // 1000
    waiting_ms, running_ms = topology.waiting_timeout_ms, topology.running_timeout_ms
    return msgspec.structs.replace(
        topology,
        waiting_timeout_ms=max(waiting_ms, least_ms) if waiting_ms else 0,
        running_timeout_ms=max(running_ms, least_ms) if running_ms else 0,
    )
