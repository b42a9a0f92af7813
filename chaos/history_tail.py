"""Follows `history.jsonl` while the load driver writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from loadtest.history import End, HistoryRecord, Sent

_DECODER = msgspec.json.Decoder(HistoryRecord)


class HistoryTail:
    """Knows which requests are open. Reads only what was added since the last `read`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.open_since_ns: dict[str, int] = {}
        """rid -> when it was due, CLOCK_MONOTONIC."""
        self._sent: dict[str, Sent] = {}
        self._ended: list[tuple[Sent, End]] = []

    def take_ended(self) -> list[tuple[Sent, End]]:
        """Requests that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def read(self) -> int:
        """Take in new lines; returns how many. A line still being written is left for the next time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return 0
        end = data.rfind(b"\n") + 1
        self._offset += end
        lines = data[:end].splitlines()
        for line in lines:
            self._take(_DECODER.decode(line))
        return len(lines)

    def _take(self, record: Sent | End) -> None:
        if isinstance(record, Sent):
            self.open_since_ns[record.rid] = record.sent_ns
            self._sent[record.rid] = record
            return
        self.open_since_ns.pop(record.rid, None)
        sent = self._sent.pop(record.rid, None)
        if sent is not None:
            self._ended.append((sent, record))
