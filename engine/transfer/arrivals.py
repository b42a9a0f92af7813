"""`Arrivals`: pages that have come in and that the loop has not taken yet; they use up the sender's credit.

A frame is acknowledged when it is here, so that nobody sends it again, but its bytes count until the loop
has taken it. So a loop that stands still or is slow holds at most its credit, and the rest stays over there.
"""

from __future__ import annotations

from collections import deque

ARRIVALS_BYTES = 64 << 20
"""Of all peers together; each may always have one frame on its way."""
MAX_CREDIT_BYTES = 32 << 20


def credit_of_each(num_peers: int) -> int:
    """Bytes that each of ``num_peers`` may have on their way and waiting here."""
    return min(MAX_CREDIT_BYTES, ARRIVALS_BYTES // max(1, num_peers))


class Arrivals:
    """Frames of one session by number."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()
        self.num_bytes = 0
        self.taken_seq = 0

    @property
    def has_room(self) -> bool:
        """No honest sender overruns this."""
        return self.num_bytes <= MAX_CREDIT_BYTES

    def came(self, seq: int, num_bytes: int) -> None:
        self._waiting.append((seq, num_bytes))
        self.num_bytes += num_bytes

    def taken(self, seq: int) -> None:
        """The loop has put everything up to ``seq`` in place, or dropped it."""
        while self._waiting and self._waiting[0][0] <= seq:
            self.num_bytes -= self._waiting.popleft()[1]
        self.taken_seq = max(self.taken_seq, seq)
