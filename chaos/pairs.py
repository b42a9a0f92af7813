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
    output_ids: tuple[int, ...] = ()


class Completion(Struct, frozen=True, kw_only=True):
    """``ok``: it completed with all the tokens asked for. ``detail``: how it went, in words."""

    ok: bool
    detail: str
    output_ids: tuple[int, ...] = ()


def ask_router(router: Endpoint, ask: Ask, within_s: float) -> Completion:
    """One request through the router, to whichever pair it chooses."""
    return _completion(ask, [_post(router, msgspec.json.encode(ask), within_s)], within_s)


def ask_pair(pair: Pair, ask: Ask, within_s: float) -> Completion:
    """The same of this pair: both halves get the body that a router would send. Both must complete."""
    routed = msgspec.structs.replace(
        ask,
        bootstrap_host=pair.bootstrap.host,
        bootstrap_port=pair.bootstrap.port,
        bootstrap_room=secrets.randbits(_ROOM_BITS),
    )
    body = msgspec.json.encode(routed)
    with ThreadPoolExecutor(max_workers=2) as pool:
        halves = pool.map(
            lambda worker: _post(worker, body, within_s), (pair.prefill_http, pair.decode_http)
        )
        return _completion(ask, list(halves), within_s)


def make_ask(num_tokens: int, seed: int, max_new_tokens: int = NEW_TOKENS) -> Ask:
    """A request of ``num_tokens`` random printable tokens, greedy; the same for the same seed."""
    generator = random.Random(seed)
    return Ask(
        rid=f"probe-{num_tokens}-{secrets.token_hex(4)}",
        input_ids=tuple(generator.randint(*_PRINTABLE) for _ in range(num_tokens)),
        sampling_params=Sampling(max_new_tokens=max_new_tokens),
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


def _completion(ask: Ask, replies: list[Reply | str], within_s: float) -> Completion:
    """Only 2xx, and from the last (decode, or the router for it) all the tokens asked for."""
    for reply in replies:
        if isinstance(reply, str):
            return Completion(ok=False, detail=f"no answer within {within_s:g} s ({reply})")
        if not reply.ok:
            return Completion(ok=False, detail=_in_words(reply))
    last = replies[-1]
    assert isinstance(last, Reply)
    try:
        answer = msgspec.json.decode(last.body, type=_Answer)
    except msgspec.DecodeError:
        return Completion(ok=False, detail=_in_words(last))
    num_tokens = answer.meta_info.completion_tokens
    if num_tokens != ask.sampling_params.max_new_tokens:
        return Completion(ok=False, detail=_in_words(last), output_ids=answer.output_ids)
    detail = f"HTTP {last.status}, {num_tokens} tokens"
    return Completion(ok=True, detail=detail, output_ids=answer.output_ids)


def _in_words(reply: Reply) -> str:
    return f"HTTP {reply.status}: {reply.body[:300].decode('utf-8', 'replace')}"
