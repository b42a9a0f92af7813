"""One body in: inflate, decode, write, forward. Knows no sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

import msgspec

from dashboards.errors import BodyRefused
from dashboards.spanstore.body import inflate
from dashboards.spanstore.decoded import Decoded
from dashboards.spanstore.forwarder import Forwarder, Parcel
from dashboards.spanstore.otlp_json import decode_json
from dashboards.spanstore.tally import StoreStats, Tally
from dashboards.spanstore.writer import SpanWriter

MAX_DECODING = 4
"""Bodies decoded at once: a 32 MiB body becomes several times that in objects."""


class MediaType(StrEnum):
    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


class Reply(NamedTuple):
    status: int
    media_type: MediaType
    body: bytes


class PartialSuccess(msgspec.Struct, frozen=True, rename="camel"):
    rejected_spans: str
    error_message: str


class JsonAnswer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    partial_success: PartialSuccess | None = None


class ErrorAnswer(msgspec.Struct, frozen=True):
    code: int
    message: str


def refusal(status: int, message: str) -> Reply:
    return Reply(status, MediaType.JSON, msgspec.json.encode(ErrorAnswer(status, message)))


class Intake:
    def __init__(self, writer: SpanWriter, tally: Tally, forwarder: Forwarder | None) -> None:
        self._writer = writer
        self._tally = tally
        self._forwarder = forwarder
        self._decoding = threading.BoundedSemaphore(MAX_DECODING)
        self._in_flight = 0
        self._changed = threading.Condition()

    @property
    def failing(self) -> str | None:
        """Why spans cannot be written at the moment."""
        return self._writer.failing

    def stats(self) -> StoreStats:
        return self._tally.read()

    def take(self, raw: bytes, content_type: str, encoding: str) -> Reply:
        """Store one ``POST /v1/traces``. The reply is 200 only once its spans are committed."""
        try:
            media_type = _media_type(content_type)
            with self._decoding:
                decoded = _decode(inflate(raw, encoding), media_type)
        except BodyRefused as refused:
            return self.refuse(refused)
        self._tally.add(invalid=decoded.rejected)
        if decoded.spans:
            error = self._writer.submit(decoded.spans)
            if error:
                return refusal(503, f"the span database cannot be written: {error}")
        if self._forwarder:
            self._forwarder.offer(Parcel(raw, content_type, encoding, len(decoded.spans)))
        return Reply(200, media_type, _answer(decoded, media_type))

    def refuse(self, refused: BodyRefused) -> Reply:
        """Count a body that is no OTLP, and say why."""
        self._tally.add(malformed=1)
        return refusal(refused.status, str(refused))

    @contextmanager
    def handling(self) -> Iterator[None]:
        """A request that shutdown waits for."""
        with self._changed:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()

    def wait_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._in_flight == 0, timeout_s)


def _media_type(content_type: str) -> MediaType:
    name = content_type.partition(";")[0].strip().lower()
    try:
        return MediaType(name)
    except ValueError:
        raise BodyRefused(
            415, f"Content-Type {name!r} is not taken; send {' or '.join(MediaType)}"
        ) from None


def _decode(body: bytes, media_type: MediaType) -> Decoded:
    if media_type is MediaType.JSON:
        return decode_json(body)
    # Late: its descriptors take longer to import than the rest of the store together.
    from dashboards.spanstore.otlp_protobuf import decode_protobuf

    return decode_protobuf(body)


def _answer(decoded: Decoded, media_type: MediaType) -> bytes:
    if media_type is MediaType.JSON:
        partial = PartialSuccess(str(decoded.rejected), decoded.why) if decoded.rejected else None
        return msgspec.json.encode(JsonAnswer(partial))
    from dashboards.spanstore.otlp_protobuf import encode_answer

    return encode_answer(decoded.rejected, decoded.why)
