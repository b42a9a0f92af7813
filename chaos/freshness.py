"""When each source of data was last heard."""

from __future__ import annotations

import threading
import time

from chaos.records import WorkerLedger


class Freshness:
    """Safe from any thread. Ages are seconds of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}
        self._ledgers: dict[str, WorkerLedger] = {}

    def seen(self, source: str) -> None:
        with self._lock:
            self._seen[source] = time.monotonic()

    def age_s(self, source: str) -> float:
        """The first question starts the clock of a source that was never heard."""
        now = time.monotonic()
        with self._lock:
            return now - self._seen.setdefault(source, now)

    def seen_ledger(self, worker: str, ledger: WorkerLedger) -> None:
        self.seen(f"ledger:{worker}")
        with self._lock:
            self._ledgers[worker] = ledger

    def ledger(self, worker: str) -> WorkerLedger | None:
        """The latest one; None if it never showed any."""
        with self._lock:
            return self._ledgers.get(worker)
