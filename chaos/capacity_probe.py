"""The capacity probe: one request that needs every KV page there was at baseline.

Counts can be wrong together; a request that needs all pages and completes cannot. One lost page and it
never gets memory.
"""

from __future__ import annotations

import http.client
import random
import secrets
import time

import msgspec

from chaos.http import Reply, fetch
from chaos.journal import Journal
from chaos.links import Endpoint
from chaos.records import EventKind, WorkerLedger

_NEW_TOKENS = 4
_PRINTABLE = (32, 126)


class _MetaInfo(msgspec.Struct, frozen=True):
    completion_tokens: int


class _Answer(msgspec.Struct, frozen=True):
    meta_info: _MetaInfo


def num_probe_tokens(baseline: dict[str, WorkerLedger], page_size: int) -> int | None:
    """Input tokens that, with the output, need every free page of the smallest pool.

    Half a page stays open, so that a limit off by one refuses nothing. None: no baseline.
    """
    free = [
        ledger.resources["kv_pages"].free
        for ledger in baseline.values()
        if "kv_pages" in ledger.resources
    ]
    if not free:
        return None
    return min(free) * page_size - page_size // 2 - _NEW_TOKENS


def probe_capacity(
    router: Endpoint,
    pair: str,
    num_tokens: int,
    within_s: float,
    journal: Journal,
    seed: int,
) -> bool:
    """Send it through the router; one event of kind probe says how it went."""
    begun = time.monotonic()
    ok, detail = ask(router, num_tokens, within_s, seed)
    journal.event(
        EventKind.PROBE,
        f"capacity:{pair}",
        ok=ok,
        value=num_tokens,
        limit=within_s,
        detail=f"{detail} after {time.monotonic() - begun:.2f} s",
    )
    return ok


def ask(router: Endpoint, num_tokens: int, within_s: float, seed: int) -> tuple[bool, str]:
    """One request of ``num_tokens`` random printable tokens; whether it completed, and in words."""
    generator = random.Random(seed)
    body = msgspec.json.encode(
        {
            "rid": f"probe-{num_tokens}-{secrets.token_hex(4)}",
            "input_ids": [generator.randint(*_PRINTABLE) for _ in range(num_tokens)],
            "sampling_params": {
                "temperature": 0,
                "max_new_tokens": _NEW_TOKENS,
                "ignore_eos": True,
            },
            "stream": False,
        }
    )
    try:
        reply = fetch(router, "/generate", method="POST", body=body, timeout_s=within_s)
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer within {within_s:g} s ({type(error).__name__})"
    return _completed(reply)


def _completed(reply: Reply) -> tuple[bool, str]:
    """Only a 2xx with all the tokens asked for counts."""
    try:
        num_tokens = msgspec.json.decode(reply.body, type=_Answer).meta_info.completion_tokens
    except msgspec.DecodeError:
        num_tokens = 0
    if reply.ok and num_tokens == _NEW_TOKENS:
        return True, f"HTTP {reply.status}, {num_tokens} tokens"
    return False, f"HTTP {reply.status}: {reply.body[:300].decode('utf-8', 'replace')}"
