"""Requests and aborts, drawn from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from random import Random

import msgspec

from engine.simulator.runner import NO_TOKEN
from engine.simulator.schedule import Abort, Fault, Half, Request, Topology

ABORT_SHARE = 0.4
LOST_HALF_SHARE = 0.06
RETRY_SHARE = 0.08
SAME_STEP_SHARE = 0.5
DEADLINE_SHARE = 0.08
TOO_LONG_SHARE = 0.02
FIRST_ROOM = 1000


def draw_requests(
    random: Random, topology: Topology, count: int, horizon_ms: int, faults: Sequence[Fault]
) -> tuple[Request, ...]:
    """Bursts and stragglers; some are aborted, some lose a half, some rids come again in a new room."""
    bursts = [_draw_burst(random, horizon_ms, faults) for _ in range(max(1, count // 6))]
    drawn = [_draw(random, topology, number, bursts, horizon_ms) for number in range(count)]
    for number in range(1, count):
        if random.random() < RETRY_SHARE:
            drawn[number] = _retry(random, drawn[number - 1], drawn[number])
    return tuple(sorted(drawn, key=lambda request: (request.at_ms, request.room)))


def _draw_burst(random: Random, horizon_ms: int, faults: Sequence[Fault]) -> int:
    """Most bursts come just before a fault begins or ends: there the races are."""
    if not faults or random.random() < 0.25:
        return random.randrange(horizon_ms)
    fault = random.choice(faults)
    moment_ms = fault.at_ms + random.choice((0, 0, fault.for_ms))
    return min(horizon_ms, max(0, moment_ms - random.randrange(250)))


def _draw(
    random: Random, topology: Topology, number: int, bursts: list[int], horizon_ms: int
) -> Request:
    at_ms = random.choice(bursts) + random.randrange(150)
    if random.random() < 0.3:
        at_ms = random.randrange(horizon_ms)
    longest = topology.decode_pages * topology.page_size
    num_tokens = 1 + random.randrange(random.choice((longest // 8, longest // 3, longest // 2)))
    if random.random() < TOO_LONG_SHARE:
        num_tokens += longest
    return Request(
        rid=f"r{number}",
        room=FIRST_ROOM + number,
        at_ms=at_ms,
        prefill=random.randrange(topology.num_prefill),
        decode=random.randrange(topology.num_decode),
        num_tokens=num_tokens,
        max_new_tokens=random.randint(1, 8),
        half=_draw_half(random),
        lag_ms=random.choice((0, 0, 0, random.randint(-60, 60))),
        aborts=_draw_aborts(random, at_ms),
        deadline_ms=random.randint(20, 3000) if random.random() < DEADLINE_SHARE else 0,
    )


def _retry(random: Random, first: Request, again: Request) -> Request:
    """The rid comes again in a room of its own: a router's retry, or a client that reuses it. Half of them
    come in the very moment in which the first is aborted."""
    at_ms = again.at_ms
    if first.aborts and random.random() < SAME_STEP_SHARE:
        at_ms = first.aborts[0].at_ms + random.choice((0, 0, 1))
    return msgspec.structs.replace(
        again, rid=first.rid, at_ms=at_ms, prefill=first.prefill, decode=first.decode
    )


def _draw_half(random: Random) -> Half:
    if random.random() < LOST_HALF_SHARE:
        return random.choice((Half.PREFILL, Half.DECODE))
    return Half.BOTH


def _draw_aborts(random: Random, at_ms: int) -> tuple[Abort, ...]:
    if random.random() >= ABORT_SHARE:
        return ()
    aborts = []
    for _ in range(random.choice((1, 1, 1, 2))):
        after_ms = random.choice(
            (random.randrange(40), random.randrange(300), random.randrange(2000))
        )
        aborts.append(
            Abort(
                at_ms=at_ms + after_ms,
                half=random.choice(tuple(Half)),
                disconnect=random.random() < 0.4,
            )
        )
    return tuple(aborts)


@lru_cache(maxsize=512)
def prompt_of(room: int, num_tokens: int) -> tuple[int, ...]:
    """The prompt of a room: no two rooms share a page of it."""
    return tuple(hashlib.shake_128(b"%d" % room).digest(num_tokens).translate(_TO_TOKENS))


_TO_TOKENS = bytes(1 + byte % (NO_TOKEN - 1) for byte in range(256))
