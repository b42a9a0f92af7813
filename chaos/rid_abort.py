"""Asks workers to abort a request by its rid; a router has no such call."""

from __future__ import annotations

import http.client
from collections.abc import Sequence

import msgspec

from chaos.errors import ChaosError
from chaos.http import fetch
from chaos.keys import authorization
from chaos.links import Endpoint


class _Matched(msgspec.Struct, frozen=True):
    matched: int = 0


def abort_everywhere(
    workers: Sequence[Endpoint], rid: str, path: str = "/abort_request", within_s: float = 5.0
) -> int:
    """How many requests matched, over all workers. Raises `ChaosError` if one of them does not answer.

    SGLang answers 200 with an empty body whatever it found: that counts as nothing.
    """
    body = msgspec.json.encode({"rid": rid})
    return sum(_abort(worker, path, body, within_s) for worker in workers)


def _abort(worker: Endpoint, path: str, body: bytes, within_s: float) -> int:
    try:
        reply = fetch(
            worker,
            path,
            method="POST",
            body=body,
            timeout_s=within_s,
            headers=authorization(),
        )
    except (OSError, http.client.HTTPException) as error:
        raise ChaosError(f"{worker}{path}: no answer ({type(error).__name__})") from error
    if not reply.ok:
        raise ChaosError(f"{worker}{path}: HTTP {reply.status}")
    try:
        return msgspec.json.decode(reply.body, type=_Matched).matched if reply.body else 0
    except msgspec.DecodeError:
        return 0
