"""A closed loop of short requests, half of which their clients give up."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from chaos.links import Endpoint

CONCURRENCY = 12
_TIMEOUT_S = 30.0
_names = itertools.count()


class Kind(StrEnum):
    """KEEP: to its end. EARLY: its abort by rid overtakes it."""

    KEEP = "keep"
    DISCONNECT = "disconnect"
    RID = "rid"
    EARLY = "early"


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """``front``: takes /generate. ``workers``: take /abort_request."""

    front: Endpoint
    workers: tuple[Endpoint, ...]


class StormReport(msgspec.Struct, frozen=True, kw_only=True):
    """``aborted``: given up by their client. ``failed``: neither that nor answered with 200."""

    requests: int = 0
    aborted: int = 0
    failed: tuple[str, ...] = ()

    def __add__(self, other: StormReport) -> StormReport:
        return StormReport(
            requests=self.requests + other.requests,
            aborted=self.aborted + other.aborted,
            failed=self.failed + other.failed,
        )


async def run_storm(storm: Storm, num_requests: int, chance: random.Random) -> StormReport:
    """Send them all; returns when the last has ended."""
    kinds = _kinds(num_requests, chance)
    lanes = [asyncio.create_task(_lane(storm, kinds, chance)) for _ in range(CONCURRENCY)]
    report = StormReport()
    for lane in lanes:
        report += await lane
    return report


def _kinds(num_requests: int, chance: random.Random) -> Iterator[Kind]:
    """Exactly half are kept."""
    gone = (Kind.DISCONNECT, Kind.RID, Kind.EARLY)
    for index in range(num_requests):
        yield Kind.KEEP if index % 2 else chance.choice(gone)


async def _lane(storm: Storm, kinds: Iterator[Kind], chance: random.Random) -> StormReport:
    requests, aborted = 0, 0
    failed: list[str] = []
    for kind in kinds:
        requests += 1
        aborted += kind is not Kind.KEEP
        async with asyncio.timeout(_TIMEOUT_S):
            status = await _one(storm, f"storm-{next(_names)}", kind, chance.uniform(0, 0.04))
        if status != 200 and kind is not Kind.DISCONNECT:
            failed.append(f"{kind}: HTTP {status}")
    return StormReport(requests=requests, aborted=aborted, failed=tuple(failed))


async def _one(storm: Storm, rid: str, kind: Kind, delay_s: float) -> int:
    if kind is Kind.EARLY:
        await _abort(storm, rid)
    # Long enough that an abort finds it; the answer of one that is kept has two tokens.
    num_tokens = 2 if kind is Kind.KEEP else 200
    body = {
        "rid": rid,
        "text": f"{rid} the quick brown fox",
        "sampling_params": {"max_new_tokens": num_tokens, "ignore_eos": True},
    }
    reader, writer = await _send(storm.front, "/generate", body)
    try:
        if kind is Kind.DISCONNECT:
            await asyncio.sleep(delay_s)
            return 0
        if kind is Kind.RID:
            await asyncio.sleep(delay_s)
            await _abort(storm, rid)
        return _status(await reader.read())
    finally:
        writer.close()


async def _abort(storm: Storm, rid: str) -> None:
    for worker in storm.workers:
        reader, writer = await _send(worker, "/abort_request", {"rid": rid})
        await reader.read()
        writer.close()


async def _send(
    endpoint: Endpoint, path: str, body: object
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    data = msgspec.json.encode(body)
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    head = f"POST {path} HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
    return reader, writer


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0
