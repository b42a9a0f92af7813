"""`LogCap`: keeps the logs of a deployment's programs within a size, for as long as it runs.

The programs append straight to their files, so that a log outlives its program and costs it nothing. A file
that has grown too long is cut here: its end moves to ``NAME.log.1`` and it begins again. Lines written in the
moment between the two are lost.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

MAX_BYTES = 16 << 20
KEPT_BYTES = 4 << 20
PERIOD_S = 2.0


class LogCap:
    """No log holds more than ``max_bytes`` and what is written within ``period_s``, nor does its ``.1``."""

    def __init__(
        self, directory: Path, max_bytes: int = MAX_BYTES, period_s: float = PERIOD_S
    ) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._period_s = period_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-cap", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No-op if it was never started."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> list[Path]:
        """Cut every log that is too long; returns those. One that cannot be cut waits for the next look."""
        return [path for path in sorted(self._directory.glob("*.log")) if self._cut(path)]

    def _run(self) -> None:
        while not self._stopping.wait(self._period_s):
            self.look()

    def _cut(self, path: Path) -> bool:
        try:
            with path.open("r+b") as log:
                size = os.fstat(log.fileno()).st_size
                if size <= self._max_bytes:
                    return False
                kept = min(KEPT_BYTES, self._max_bytes)
                log.seek(max(0, size - kept))
                end = log.read()[-kept:]  # it writes on while we read
                log.truncate(0)
            path.with_name(f"{path.name}.1").write_bytes(end.partition(b"\n")[2])
        except OSError:
            return False
        return True
