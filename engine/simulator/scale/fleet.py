"""A fleet, and the work for it, drawn from a seed."""

from __future__ import annotations

from random import Random

from engine.simulator.draw import Size
from engine.simulator.schedule import (
    VERSION,
    Abort,
    Fault,
    FaultKind,
    Half,
    Request,
    Schedule,
    Topology,
)

ARRIVE_FOR_MS = 2000
BURST_MS = 600
CRASH_MS = 1000
DOWN_MS = 2500
MEET_MS = 250
"""Who dies has met the halves of its requests: those that it has not would wait for 5 s, as would all."""
STEPS = (0.02, 0.1, 0.4, 1.0)
"""The fleets of a table, as parts of the one that was asked for."""
BURST_SHARE = 0.3
ABORT_SHARE = 0.1
CRASH_SHARE = 0.01


def growing(size: Size) -> list[Size]:
    """Smaller fleets with the same work a worker, then ``size``."""
    found: list[Size] = []
    for part in STEPS:
        smaller = Size(
            num_prefill=max(1, round(size.num_prefill * part)),
            num_decode=max(1, round(size.num_decode * part)),
            num_requests=max(1, round(size.num_requests * part)),
        )
        if smaller not in found:
            found.append(smaller)
    return found


def draw_fleet(seed: int, size: Size) -> Schedule:
    """Requests of two seconds, a third of them in one burst; a tenth is aborted; one worker in a hundred
    of either role dies and comes back. The router spreads over all pairs, which is the worst for
    sessions, and does not choose workers that are down."""
    random = Random(seed)
    crashed = _draw_crashed(random, size)
    requests = [_draw_request(random, number, size, crashed) for number in range(size.num_requests)]
    return Schedule(
        version=VERSION,
        seed=seed,
        horizon_ms=ARRIVE_FOR_MS,
        topology=_topology(size),
        requests=tuple(sorted(requests, key=lambda request: request.at_ms)),
        faults=tuple(
            Fault(kind=FaultKind.CRASH, targets=(name,), at_ms=CRASH_MS, for_ms=DOWN_MS)
            for name in sorted(crashed)
        ),
    )


def _draw_crashed(random: Random, size: Size) -> frozenset[str]:
    """One worker in a hundred of each role, at least one of two or more."""
    crashed = set()
    for role, count in (("p", size.num_prefill), ("d", size.num_decode)):
        num_crashed = max(1, round(count * CRASH_SHARE)) if count > 1 else 0
        crashed |= {f"{role}{number}" for number in random.sample(range(count), num_crashed)}
    return frozenset(crashed)


def _topology(size: Size) -> Topology:
    return Topology(
        num_prefill=size.num_prefill,
        num_decode=size.num_decode,
        page_size=16,
        chunk_tokens=64,
        prefill_pages=128,
        decode_pages=256,
        staging_pages=128,
        max_running=32,
        max_queued=0,
        step_ms=4,
        token_us=25,
        delay_us=100,
        kv_delay_us=300,
        jitter_us=50,
        num_layers=30,
    )


def _draw_request(random: Random, number: int, size: Size, crashed: frozenset[str]) -> Request:
    at_ms = random.randrange(ARRIVE_FOR_MS)
    if random.random() < BURST_SHARE:
        at_ms = BURST_MS + random.randrange(50)
    is_down = CRASH_MS - MEET_MS <= at_ms < CRASH_MS + DOWN_MS
    prefill, decode = random.randrange(size.num_prefill), random.randrange(size.num_decode)
    while is_down and crashed & {f"p{prefill}", f"d{decode}"}:
        prefill, decode = random.randrange(size.num_prefill), random.randrange(size.num_decode)
    aborts: tuple[Abort, ...] = ()
    if random.random() < ABORT_SHARE:
        half = random.choice((Half.PREFILL, Half.DECODE))
        abort_ms = at_ms + random.randrange(5, 150)
        aborts = (Abort(at_ms=abort_ms, half=half, disconnect=False),)
    return Request(
        rid=f"r{number}",
        room=number + 1,
        at_ms=at_ms,
        prefill=prefill,
        decode=decode,
        num_tokens=random.randint(16, 96),
        max_new_tokens=4,
        half=Half.BOTH,
        lag_ms=0,
        aborts=aborts,
    )
