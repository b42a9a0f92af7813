"""Faults, drawn from a seed."""

from __future__ import annotations

from random import Random

from engine.simulator.schedule import Direction, Fault, FaultKind, Topology

MIN_FAULTS = 3
MAX_FAULTS = 6
_KINDS = (
    *(FaultKind.STALL,) * 4,
    *(FaultKind.BLACKHOLE,) * 5,
    *(FaultKind.REFUSE,) * 2,
    *(FaultKind.RESET,) * 2,
    *(FaultKind.DELAY,) * 2,
    *(FaultKind.CRASH,) * 2,
    *(FaultKind.PAUSE,) * 2,
    FaultKind.WEDGE,
    FaultKind.SLOW,
)
_CUT_LINKS = (
    *(("control",),) * 3,
    *(("kv",),) * 3,
    *(("control", "kv"),) * 3,
    ("bootstrap",),
    ("bootstrap", "control", "kv"),
)


def draw_faults(random: Random, topology: Topology, horizon_ms: int) -> tuple[Fault, ...]:
    """Three to six faults; half of the schedules leave at least one pair alone."""
    count = random.randint(MIN_FAULTS, MAX_FAULTS)
    spared = random.random() < 0.5
    drawn = [_draw(random, topology, horizon_ms, spared) for _ in range(count)]
    return tuple(sorted(drawn, key=lambda fault: (fault.at_ms, fault.targets)))


def _draw(random: Random, topology: Topology, horizon_ms: int, spared: bool) -> Fault:
    kind = random.choice(_KINDS)
    at_ms = random.randrange(200, horizon_ms)
    match kind:
        case FaultKind.CRASH | FaultKind.PAUSE | FaultKind.WEDGE | FaultKind.SLOW:
            return _draw_worker_fault(random, topology, kind, at_ms, spared)
        case _:
            return _draw_link_fault(random, topology, kind, at_ms, spared)


def _pick(random: Random, count: int, spared: bool) -> int:
    """A worker's number; the last one of each role is spared."""
    return random.randrange(max(1, count - 1) if spared else count)


def _draw_link_fault(
    random: Random, topology: Topology, kind: FaultKind, at_ms: int, spared: bool
) -> Fault:
    pair = (
        f"p{_pick(random, topology.num_prefill, spared)}"
        f"-d{_pick(random, topology.num_decode, spared)}"
    )
    direction = random.choice((Direction.BOTH, Direction.BOTH, Direction.FORWARD, Direction.BACK))
    return Fault(
        kind=kind,
        targets=tuple(f"{link}:{pair}" for link in random.choice(_CUT_LINKS)),
        at_ms=at_ms,
        for_ms=0 if kind is FaultKind.RESET else _draw_duration(random, 4000),
        direction=direction,
        amount=random.randint(5, 400) if kind is FaultKind.DELAY else 0,
    )


def _draw_worker_fault(
    random: Random, topology: Topology, kind: FaultKind, at_ms: int, spared: bool
) -> Fault:
    role, count = random.choice((("p", topology.num_prefill), ("d", topology.num_decode)))
    longest_ms = 8000 if kind is FaultKind.WEDGE else 3000
    return Fault(
        kind=kind,
        targets=(f"{role}{_pick(random, count, spared)}",),
        at_ms=at_ms,
        for_ms=_draw_duration(random, longest_ms),
        amount=random.randint(3, 10) if kind is FaultKind.SLOW else 0,
    )


def _draw_duration(random: Random, longest_ms: int) -> int:
    """Short ones as often as long ones, and now and then one that nobody can overlook."""
    if random.random() < 0.2:
        return random.randrange(longest_ms * 5 // 8, longest_ms)
    return int(100 * (longest_ms / 100) ** random.random())
