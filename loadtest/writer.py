"""Appends records to the history file; each line has left the process when `write` returns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import msgspec

from loadtest.errors import HistoryError
from loadtest.history import HistoryRecord


class HistoryWriter:
    """One unbuffered O_APPEND file. A torn last line of a killed writer is cut off first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()
        try:
            _cut_torn_line(path)
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise HistoryError(path, error.strerror or str(error)) from error

    def write(self, record: HistoryRecord) -> None:
        """One line, one system call. Raises `HistoryError` if it did not get through whole."""
        line = self._encoder.encode(record) + b"\n"
        try:
            num_written = os.write(self._fd, line)
        except OSError as error:
            raise HistoryError(self._path, error.strerror or str(error)) from error
        if num_written != len(line):
            raise HistoryError(self._path, f"{num_written} of {len(line)} bytes were taken")

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _cut_torn_line(path: Path) -> None:
    if not path.is_file():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
