"""Both ends of one reliable direction: sequence numbers, cumulative acks, resend, dedupe, credit.

Go-back-N over zmq: frames are lost only by a cut that swallows them (a blackhole), then everything after
the last ack is sent again. Pure: the clock comes in as an argument.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engine.core.peer import KvSettled

MAX_RESEND_WAIT_NS = 3_000_000_000
"""A link that heals late must see a resend well before the transfer's deadline (10 s)."""


@dataclass(slots=True)
class OutFrame:
    """``settled``: what to tell the core once the frame is acknowledged or given up."""

    seq: int
    parts: tuple[bytes, ...]
    settled: KvSettled | None

    @property
    def num_bytes(self) -> int:
        return sum(len(part) for part in self.parts)


class SendWindow:
    """Frames on their way. ``credit_bytes`` bounds what is sent and not used up over there.

    ``is_taken_by_ack``: what has arrived is used up; else `take` says what is.
    """

    def __init__(
        self, credit_bytes: int, resend_after_ns: int, is_taken_by_ack: bool = True
    ) -> None:
        self.credit_bytes = credit_bytes
        self._resend_after_ns = resend_after_ns
        self._is_taken_by_ack = is_taken_by_ack
        self._queued: deque[OutFrame] = deque()
        self._unacked: deque[OutFrame] = deque()
        self._untaken: deque[tuple[int, int]] = deque()
        self._untaken_bytes = 0
        self._next_seq = 1
        self._progress_ns = 0
        self._backoff = 1
        self.num_resends = 0

    @property
    def next_seq(self) -> int:
        return self._next_seq

    def __len__(self) -> int:
        return len(self._queued) + len(self._unacked)

    def push(self, parts: tuple[bytes, ...], settled: KvSettled | None = None) -> None:
        """Queue a frame that was encoded with `next_seq`."""
        self._queued.append(OutFrame(self._next_seq, parts, settled))
        self._next_seq += 1

    def peek(self) -> OutFrame | None:
        """The next frame to send, if there is one and credit for it (or the other side has none to use)."""
        if not self._queued:
            return None
        frame = self._queued[0]
        fits = self._untaken_bytes + frame.num_bytes <= self.credit_bytes
        return frame if fits or not self._untaken or self._was_sent(frame) else None

    def _was_sent(self, frame: OutFrame) -> bool:
        """Is it sent again? Then its bytes count already."""
        return bool(self._untaken) and frame.seq <= self._untaken[-1][0]

    def sent(self, now_ns: int) -> None:
        """The frame that `peek` showed has gone out."""
        if not self._unacked:
            self._progress_ns = now_ns
        frame = self._queued.popleft()
        if not self._was_sent(frame):
            self._untaken.append((frame.seq, frame.num_bytes))
            self._untaken_bytes += frame.num_bytes
        self._unacked.append(frame)

    def acknowledge(self, ack: int, now_ns: int) -> list[OutFrame]:
        """Everything up to ``ack`` has arrived; returns those frames."""
        done = []
        while self._unacked and self._unacked[0].seq <= ack:
            done.append(self._unacked.popleft())
        # After a rewind, acknowledged frames may stand in the queue again.
        while self._queued and self._queued[0].seq <= ack:
            done.append(self._queued.popleft())
        if self._is_taken_by_ack:
            self.take(ack)
        if done:
            self._progress_ns = now_ns
            self._backoff = 1
        return done

    def take(self, seq: int) -> None:
        """The other side has used up everything up to ``seq``."""
        while self._untaken and self._untaken[0][0] <= seq:
            self._untaken_bytes -= self._untaken.popleft()[1]

    def rewind(self, now_ns: int) -> None:
        """Send everything unacknowledged again, in order."""
        self.num_resends += len(self._unacked)
        self._queued.extendleft(reversed(self._unacked))
        self._unacked.clear()
        self._progress_ns = now_ns

    def is_overdue(self, now_ns: int) -> bool:
        """No ack for too long (the wait doubles each time, up to `MAX_RESEND_WAIT_NS`)."""
        wait_ns = min(self._resend_after_ns * self._backoff, MAX_RESEND_WAIT_NS)
        return bool(self._unacked) and now_ns - self._progress_ns > wait_ns

    def back_off(self) -> None:
        self._backoff = min(self._backoff * 2, 8)

    def abandon(self) -> list[OutFrame]:
        """The session is over: everything that will never be acknowledged."""
        left = [*self._unacked, *self._queued]
        self._unacked.clear()
        self._queued.clear()
        self._untaken.clear()
        self._untaken_bytes = 0
        return left


class ReceiveWindow:
    """What has arrived in order. ``has_gap`` asks the sender to rewind."""

    def __init__(self) -> None:
        self.ack = 0
        self.has_gap = False

    def accept(self, seq: int) -> bool:
        """Take the frame? Only the one after the last; older are duplicates, later a gap."""
        if seq == self.ack + 1:
            self.ack = seq
            self.has_gap = False
            return True
        self.has_gap = self.has_gap or seq > self.ack + 1
        return False
