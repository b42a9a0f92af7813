"""`Pair`: a prefill and a decode worker, asked past the router, so that surely this pair answers."""

from __future__ import annotations

import http.client
import random
import secrets
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import Struct

from chaos.http import Reply, fetch
from chaos.keys import authorization
from chaos.links import Endpoint

NEW_TOKENS = 4
_PRINTABLE = (32, 126)
_ROOM_BITS = 62


class Pair(Struct, frozen=True, kw_only=True):
    """``bootstrap``: where decode finds prefill; its own link map turns it into the proxy."""

    prefill: str
    decode: str
    prefill_http: Endpoint
    decode_http: Endpoint
    bootstrap: Endpoint

    def __str__(self) -> str:
        return f"{self.prefill}-{self.decode}"


class Sampling(Struct, frozen=True, kw_only=True):
    temperature: float = 0.0
    max_new_tokens: int = NEW_TOKENS
    ignore_eos: bool = True


class Ask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Body of ``/generate``; the three ``bootstrap_*`` are what a router adds."""

    rid: str
    input_ids: tuple[int, ...]
    sampling_params: Sampling
    stream: bool = False
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: int | None = None


class _MetaInfo(Struct, frozen=True):
    completion_tokens: int


class _Answer(Struct, frozen=True):
    meta_info: _MetaInfo


def ask_router(router: Endpoint, num_tokens: int, within_s: float, seed: int) -> tuple[bool, str]:
    """One request of ``num_tokens`` random printable tokens; whether it completed, and in words."""
    body = msgspec.json.encode(_ask(num_tokens, seed))
    return _completed([_post(router, body, within_s)], within_s)


def ask_pair(pair: Pair, num_tokens: int, within_s: float, seed: int) -> tuple[bool, str]:
    """The same of this pair: both halves get the body that a router would send. Both must complete."""
    ask = msgspec.structs.replace(
        _ask(num_tokens, seed),
        bootstrap_host=pair.bootstrap.host,
        bootstrap_port=pair.bootstrap.port,
        bootstrap_room=secrets.randbits(_ROOM_BITS),
    )
    body = msgspec.json.encode(ask)
    with ThreadPoolExecutor(max_workers=2) as pool:
        halves = pool.map(
            lambda worker: _post(worker, body, within_s), (pair.prefill_http, pair.decode_http)
        )
        return _completed(list(halves), within_s)


def _ask(num_tokens: int, seed: int) -> Ask:
    generator = random.Random(seed)
    return Ask(
        rid=f"probe-{num_tokens}-{secrets.token_hex(4)}",
        input_ids=tuple(generator.randint(*_PRINTABLE) for _ in range(num_tokens)),
        sampling_params=Sampling(),
    )


def _post(worker: Endpoint, body: bytes, within_s: float) -> Reply | str:
    """The answer, or why there is none."""
    try:
        return fetch(
            worker,
            "/generate",
            method="POST",
            body=body,
            timeout_s=within_s,
            headers=authorization(),
        )
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def _completed(replies: list[Reply | str], within_s: float) -> tuple[bool, str]:
    """Only 2xx, and from the last (decode, or the router for it) all the tokens asked for."""
    for reply in replies:
        if isinstance(reply, str):
            return False, f"no answer within {within_s:g} s ({reply})"
        if not reply.ok:
            return False, _in_words(reply)
    last = replies[-1]
    assert isinstance(last, Reply)
    try:
        num_tokens = msgspec.json.decode(last.body, type=_Answer).meta_info.completion_tokens
    except msgspec.DecodeError:
        num_tokens = 0
    if num_tokens == NEW_TOKENS:
        return True, f"HTTP {last.status}, {num_tokens} tokens"
    return False, _in_words(last)


def _in_words(reply: Reply) -> str:
    return f"HTTP {reply.status}: {reply.body[:300].decode('utf-8', 'replace')}"
