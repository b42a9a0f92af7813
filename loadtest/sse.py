"""Server-sent events out of a byte stream, as soon as each is whole."""

from __future__ import annotations

_FIELD = b"data:"
_BLANK_LINE = b"\n\n"


class EventParser:
    """Feed it bytes as they come; it hands out the ``data`` of each finished event."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The events that ``data`` completes, without their field name. Comments are dropped."""
        if not self._buffer and _is_one_line_event(data):
            event = data[len(_FIELD) :].strip()  # nearly every read, and half the cost
            return [event] if event else []
        self._buffer += data.replace(b"\r", b"") if b"\r" in data else data
        events: list[bytes] = []
        while (end := self._buffer.find(_BLANK_LINE, self._scanned)) >= 0:
            block = bytes(self._buffer[:end])
            del self._buffer[: end + len(_BLANK_LINE)]
            self._scanned = 0
            event = _data_of(block)
            if event:
                events.append(event)
        self._scanned = max(0, len(self._buffer) - 1)
        return events

    def rest(self) -> bytes:
        """What is left when the stream has ended: a torn event, or nothing."""
        return bytes(self._buffer).strip()


def _is_one_line_event(data: bytes) -> bool:
    return (
        data.startswith(_FIELD)
        and data.find(b"\n") == len(data) - len(_BLANK_LINE)
        and data.endswith(_BLANK_LINE)
        and b"\r" not in data
    )


def _data_of(block: bytes) -> bytes:
    if block.startswith(_FIELD) and b"\n" not in block:
        return block[len(_FIELD) :].strip()
    lines = (line[len(_FIELD) :].strip() for line in block.split(b"\n") if line.startswith(_FIELD))
    return b"\n".join(lines)
