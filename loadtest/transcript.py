"""What the client has received of one answer, and when. Knows HTTP status and frames; no sockets."""

from __future__ import annotations

from collections.abc import Callable

from loadtest.frames import (
    DONE,
    FinishReason,
    Frame,
    ServerAbort,
    find_server_abort,
    parse_frame,
)

_QUOTED_CHARS = 400


class Transcript:
    """Fed by the stream, read by `loadtest.outcome`. All ``*_ns`` are CLOCK_MONOTONIC.

    ``num_answers`` counts terminal events: frames with a finish reason, and errors. ``finish`` and
    ``server_abort`` are those of the first one. ``gaps_ns``: between frames that brought tokens.
    ``over_ns``: when the client knew that it was over (the first answer, or [DONE]); from then on no abort
    changes the outcome. ``on_tokens`` is called with the count while it is not over, ``on_over`` once.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.num_tokens = 0
        self.num_answers = 0
        self.finish: FinishReason | None = None
        self.claimed_tokens: int | None = None
        self.server_abort: ServerAbort | None = None
        self.foreign_error: str | None = None
        self.done = False
        self.over_ns: int | None = None
        self.last_frame = b""
        self.gaps_ns: list[int] = []
        self.on_tokens: Callable[[int], None] = _ignore
        self.on_over: Callable[[], None] = _nothing

    @property
    def answered(self) -> bool:
        """A terminal event is here."""
        return self.num_answers > 0

    def head(self, status: int, now_ns: int) -> None:
        self.status = status
        self.headers_ns = now_ns

    def event(self, data: bytes, now_ns: int) -> None:
        """Take one event of a stream with status 200."""
        if data == DONE:
            self.done = True
            self._over(now_ns)
            return
        frame = parse_frame(data)
        if frame is None or frame.error is not None:
            self.error(data, now_ns)
        else:
            self._frame(frame, data, now_ns)

    def document(self, body: bytes, now_ns: int) -> None:
        """Take a whole answer that is no stream (an abort before the first frame)."""
        frame = parse_frame(body)
        if frame is None or frame.finish is None:
            self.error(body, now_ns)
            return
        self._frame(frame, body, now_ns)
        self.done = True

    def error(self, body: bytes, now_ns: int) -> None:
        """Take an error: an event in mid-stream, or the body of an answer with another status."""
        abort = find_server_abort(body)
        if not self.answered:
            self.server_abort = abort
        if abort is None and self.foreign_error is None:
            self.foreign_error = body[:_QUOTED_CHARS].decode("utf-8", "replace")
        self.num_answers += 1
        self._over(now_ns)

    def _frame(self, frame: Frame, data: bytes, now_ns: int) -> None:
        finish = frame.finish
        if finish is not None:
            if not self.answered:
                self.finish = finish
                self.claimed_tokens = frame.claimed_tokens
                self.last_frame = data
            self.num_answers += 1
            self._over(now_ns)
        elif not self.answered:
            self.last_frame = data
        if frame.num_tokens > self.num_tokens:
            self._tokens(frame.num_tokens, now_ns)

    def _tokens(self, num_tokens: int, now_ns: int) -> None:
        self.num_tokens = num_tokens
        if self.first_ns is None or self.last_ns is None:
            self.first_ns = now_ns
        else:
            self.gaps_ns.append(now_ns - self.last_ns)
        self.last_ns = now_ns
        if self.over_ns is None:
            self.on_tokens(num_tokens)

    def _over(self, now_ns: int) -> None:
        if self.over_ns is None:
            self.over_ns = now_ns
            self.on_over()


def _ignore(_num_tokens: int) -> None:
    pass


def _nothing() -> None:
    pass
