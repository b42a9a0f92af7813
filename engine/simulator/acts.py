"""What operators and odd clients do, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from engine.simulator.schedule import Act, ActKind, Request, Topology

SHARE = 0.4
_KINDS = (
    *(ActKind.PAUSE,) * 4,
    *(ActKind.FLUSH,) * 3,
    *(ActKind.ABORT_PREFIX,) * 2,
    *(ActKind.ABORT_UNKNOWN,) * 2,
    ActKind.ABORT_ALL,
)


def draw_acts(
    random: Random, topology: Topology, requests: Sequence[Request], horizon_ms: int
) -> tuple[Act, ...]:
    """None in most schedules; else one to three, most of them just after a request has come."""
    if not requests or random.random() >= SHARE:
        return ()
    workers = [f"p{number}" for number in range(topology.num_prefill)]
    workers += [f"d{number}" for number in range(topology.num_decode)]
    drawn = [
        _draw(random, random.choice(workers), random.choice(requests), horizon_ms)
        for _ in range(random.randint(1, 3))
    ]
    return tuple(sorted(drawn, key=lambda act: (act.at_ms, act.worker)))


def _draw(random: Random, worker: str, request: Request, horizon_ms: int) -> Act:
    kind = random.choice(_KINDS)
    rid = {ActKind.ABORT_PREFIX: request.rid, ActKind.ABORT_UNKNOWN: f"{request.rid}_unknown"}
    return Act(
        kind=kind,
        worker=worker,
        at_ms=min(horizon_ms, request.at_ms + random.randrange(random.choice((5, 200)))),
        for_ms=random.choice((20, 300, 2000)) if kind is ActKind.PAUSE else 0,
        rid=rid.get(kind, ""),
    )
