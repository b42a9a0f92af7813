"""What one event of a /generate stream says. Frames are cumulative: the last one tells the whole answer."""

from __future__ import annotations

import re

import msgspec

DONE = b"[DONE]"


class FinishReason(msgspec.Struct, frozen=True):
    """``meta_info.finish_reason``. ``reason``, ``stage`` and ``origin`` come with an abort, if at all."""

    type: str
    message: str | None = None
    reason: str | None = None
    stage: str | None = None
    origin: str | None = None


class ServerAbort(msgspec.Struct, frozen=True, kw_only=True):
    """Body of an error answer of our engine."""

    message: str | None = None
    reason: str | None = None
    stage: str | None = None
    origin: str | None = None


class _Meta(msgspec.Struct, frozen=True):
    finish_reason: FinishReason | str | None = None
    completion_tokens: int | None = None


class Frame(msgspec.Struct, frozen=True):
    """The parts that every frame is looked at for; all else is skipped, not built."""

    output_ids: list[int] | None = None
    meta_info: _Meta | None = None
    error: msgspec.Raw | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens so far. Counted; the server's claim only where it sends no ids."""
        if self.output_ids is not None:
            return len(self.output_ids)
        return (self.meta_info.completion_tokens or 0) if self.meta_info else 0

    @property
    def finish(self) -> FinishReason | None:
        reason = self.meta_info.finish_reason if self.meta_info else None
        return FinishReason(reason) if isinstance(reason, str) else reason

    @property
    def claimed_tokens(self) -> int | None:
        return self.meta_info.completion_tokens if self.meta_info else None


class _TopLogprobs(msgspec.Struct, frozen=True):
    output_top_logprobs: list[list[tuple[float | None, int, str | None]] | None] | None = None


class Answer(msgspec.Struct, frozen=True):
    """The same frame in full: what a history record keeps of the last one."""

    text: str = ""
    output_ids: tuple[int, ...] = ()
    meta_info: _TopLogprobs = _TopLogprobs()

    @property
    def margins(self) -> tuple[float, ...]:
        """Best minus second-best logprob of each token (same as of the logits); empty if not told."""
        tops = self.meta_info.output_top_logprobs or []
        pairs = [(top[0][0], top[1][0]) for top in tops if top and len(top) > 1]
        return tuple(
            best - next_ for best, next_ in pairs if best is not None and next_ is not None
        )


_frames = msgspec.json.Decoder(Frame)
_answers = msgspec.json.Decoder(Answer)


def parse_frame(data: bytes) -> Frame | None:
    """None: not a frame of /generate."""
    try:
        return _frames.decode(data)
    except msgspec.DecodeError:
        return None


def parse_answer(data: bytes) -> Answer | None:
    """None: not a frame of /generate."""
    try:
        return _answers.decode(data)
    except msgspec.DecodeError:
        return None


_IS_ABORT = re.compile(rb'"type"\s*:\s*"abort"')
_CODES_IN_WORDS = re.compile(r"\(reason (?P<reason>\w+), stage (?P<stage>\w+), rid ")


def find_server_abort(body: bytes) -> ServerAbort | None:
    """The abort that ``body`` tells of, however it is wrapped; None if it tells of none.

    The SGLang router wraps a decode worker's error in an event that is no JSON (``data: {'error':
    {"message": ...``), quotes a prefill worker's error within its own message, and cuts the end of
    both off. Hence this reads fields, not a document, and takes the codes from the worker's words where
    their fields are lost.
    """
    plain = body if _IS_ABORT.search(body) else body.replace(b'\\"', b'"')
    if not _IS_ABORT.search(plain):
        return None
    message = _field(plain, b"message")
    words = _CODES_IN_WORDS.search(message or "")
    in_words = words.groupdict() if words else {}
    return ServerAbort(
        message=message,
        reason=_field(plain, b"reason") or in_words.get("reason"),
        stage=_field(plain, b"stage") or in_words.get("stage"),
        origin=_field(plain, b"origin"),
    )


def _field(body: bytes, name: bytes) -> str | None:
    """The innermost value of ``name``: a wrapper's own fields come first."""
    found: list[bytes] = re.findall(rb'"%s"\s*:\s*("(?:[^"\\]|\\.)*")' % name, body)
    if not found:
        return None
    try:
        return msgspec.json.decode(found[-1], type=str)
    except msgspec.DecodeError:
        return found[-1].decode("utf-8", "replace").strip('"')
