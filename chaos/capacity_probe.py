"""The capacity probe: on each pair one request that needs every KV page there was at baseline.

Counts can be wrong together; a request that needs all pages and completes cannot. One lost page and it
never gets memory. It goes to both workers of its pair: a router would leave it to chance which pages it
asks for.
"""

from __future__ import annotations

import time

from chaos.journal import Journal
from chaos.pairs import NEW_TOKENS, Pair, ask_pair, make_ask
from chaos.records import EventKind, WorkerLedger


def num_probe_tokens(
    baseline: dict[str, WorkerLedger], workers: tuple[str, ...], page_size: int
) -> int | None:
    """Input tokens that, with the output, need every free page of the smaller pool of ``workers``.

    Half a page stays open, so that a limit off by one refuses nothing. None: a baseline is missing.
    """
    counts = [
        baseline[name].resources.get("kv_pages") if name in baseline else None for name in workers
    ]
    free = [count.free for count in counts if count is not None]
    if len(free) < len(workers):
        return None
    return min(free) * page_size - page_size // 2 - NEW_TOKENS


def probe_capacity(
    pair: Pair, num_tokens: int, within_s: float, journal: Journal, seed: int
) -> bool:
    """Send it; one event of kind probe says how it went."""
    begun = time.monotonic()
    got = ask_pair(pair, make_ask(num_tokens, seed), within_s)
    journal.event(
        EventKind.PROBE,
        f"capacity:{pair}",
        ok=got.ok,
        value=num_tokens,
        limit=within_s,
        detail=f"{got.detail} after {time.monotonic() - begun:.2f} s",
    )
    return got.ok
