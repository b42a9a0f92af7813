"""`Answer`: what one request to `/generate` came to, whatever that was."""

from __future__ import annotations

import http.client

import msgspec
from msgspec import Struct

from chaos.http import fetch
from chaos.keys import authorization
from chaos.links import Endpoint


class Answer(Struct, frozen=True, kw_only=True):
    """``status`` None: no answer, ``detail`` says why. ``finish``: stop, length or abort; None with an error.
    ``reason`` and ``stage``: of an abort, by either side."""

    rid: str
    status: int | None
    text: str = ""
    num_tokens: int = 0
    finish: str | None = None
    reason: str | None = None
    stage: str | None = None
    detail: str = ""

    @property
    def completed(self) -> bool:
        """HTTP 200 with everything that was asked for."""
        return self.status == 200 and self.finish in ("stop", "length")

    @property
    def aborted(self) -> bool:
        """By its own client, or by the server with a reason."""
        return self.finish == "abort" or self.reason is not None


class _Finish(Struct, frozen=True):
    type: str
    reason: str | None = None
    stage: str | None = None


class _Meta(Struct, frozen=True):
    finish_reason: _Finish | None = None
    completion_tokens: int = 0


class _Error(Struct, frozen=True):
    message: str = ""
    reason: str | None = None
    stage: str | None = None


class _Body(Struct, frozen=True):
    text: str = ""
    meta_info: _Meta = _Meta()
    error: _Error = _Error()


class Prompt(Struct, frozen=True, kw_only=True):
    """One request, greedy. ``max_new_tokens`` are generated, whatever the model wants."""

    rid: str
    text: str
    max_new_tokens: int

    def body(self) -> bytes:
        sampling = {"temperature": 0, "max_new_tokens": self.max_new_tokens, "ignore_eos": True}
        return msgspec.json.encode(
            {"rid": self.rid, "text": self.text, "sampling_params": sampling, "stream": False}
        )


def ask(server: Endpoint, prompt: Prompt, within_s: float) -> Answer:
    """Never raises: what goes wrong is the answer."""
    try:
        reply = fetch(
            server,
            "/generate",
            method="POST",
            body=prompt.body(),
            timeout_s=within_s,
            headers=authorization(),
        )
    except (OSError, http.client.HTTPException) as error:
        detail = f"no answer within {within_s:g} s ({type(error).__name__}: {error})"
        return Answer(rid=prompt.rid, status=None, detail=detail)
    return read_answer(prompt.rid, reply.status, reply.body)


def read_answer(rid: str, status: int, raw: bytes) -> Answer:
    """From what came over the wire."""
    text = raw[:300].decode("utf-8", "replace")
    try:
        body = msgspec.json.decode(raw, type=_Body)
    except msgspec.DecodeError:
        return Answer(rid=rid, status=status, detail=text)
    finish = body.meta_info.finish_reason
    return Answer(
        rid=rid,
        status=status,
        text=body.text,
        num_tokens=body.meta_info.completion_tokens,
        finish=finish.type if finish else None,
        reason=finish.reason if finish else body.error.reason,
        stage=finish.stage if finish else body.error.stage,
        detail=body.error.message if status != 200 else "",
    )
