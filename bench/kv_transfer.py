"""KV pages from prefill to decode: beside plain pyzmq on the same route, and from gather to scatter.

    python -m bench.kv_transfer

Two processes with the real I/O threads and links on real sockets, straight and through toxiproxy.
Both senders take turns within one session, so that a ratio compares neighbors.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from bench.command import progress, run_command
from bench.kv_route import KvRoute, direct_route, proxied_route
from bench.kv_sender import LinkSender, PlainSender, Sent, senders
from bench.kv_shapes import CHUNK_PAGES
from bench.row import BenchRow, at_least, at_most, make_row, percentile

STREAM_BYTES = 32 << 20
MIN_RATIO = 0.8
MAX_REQUEST_MS = 5.0
ROUTES: tuple[Callable[[], AbstractContextManager[KvRoute]], ...] = (direct_route, proxied_route)


def measure(quick: bool) -> Iterator[BenchRow]:
    rounds = 3 if quick else 31
    for shape in ("tiny", "smollm2"):
        for make_route in ROUTES:
            with make_route() as route, senders(shape, route) as (by_links, plain):
                progress(f"{shape}, {route.name}")
                yield from _streams(shape, route.name, by_links, plain, rounds)
                yield from _requests(shape, route.name, by_links, 2 * rounds)


def _streams(
    shape: str, route: str, by_links: LinkSender, plain: PlainSender, rounds: int
) -> Iterator[BenchRow]:
    data = os.urandom(by_links.pool.page_bytes * CHUNK_PAGES)
    count = max(8, STREAM_BYTES // len(data))
    ratios, speeds = [], []
    for number in range(-rounds - 2, -1):
        plain_ns = plain.stream(number, data, count)
        links_ns = by_links.stream(number, data, count)
        if number >= -rounds - 1:  # the first pair warms up
            ratios.append(plain_ns / links_ns)
            speeds.append(count * len(data) / links_ns)
    yield make_row(
        f"kv_transfer.{shape}.{route}",
        statistics.median(ratios),
        "of plain pyzmq",
        at_least(MIN_RATIO),
        f"{count} frames of {len(data) >> 10} KiB a turn, sequenced, acknowledged, checksums on both "
        f"ends; plain: DEALER to ROUTER by reference, copied out; median ratio of turns, "
        f"{statistics.median(speeds):.2f} GB/s",
        samples=len(ratios),
    )


def _requests(shape: str, route: str, by_links: LinkSender, rounds: int) -> Iterator[BenchRow]:
    sent = [by_links.request(room) for room in range(rounds + 2)][2:]
    is_judged = (shape, route) == ("tiny", "direct")
    parts = ", ".join(
        f"{name} {_median_ms(sent, part):.2f}"
        for name, part in (
            ("gather", lambda one: one.gather_ns),
            ("link", lambda one: one.link_ns),
            ("scatter", lambda one: one.scatter_ns),
        )
    )
    totals = [one.total_ns / 1e6 for one in sent]
    yield make_row(
        f"kv_transfer.2048_tokens.{shape}.{route}",
        statistics.median(totals),
        "ms",
        at_most(MAX_REQUEST_MS) if is_judged else None,
        f"2,048 tokens bf16 in 8 frames, first gather to last scatter; medians in ms: {parts} (link: "
        "what neither overlaps)",
        samples=len(totals),
        p99=percentile(totals, 99),
    )


def _median_ms(sent: list[Sent], part: Callable[[Sent], int]) -> float:
    return statistics.median(part(one) for one in sent) / 1e6


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))
