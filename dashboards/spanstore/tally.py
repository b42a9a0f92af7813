"""The store's counters; one lock, because every connection's thread counts here."""

from __future__ import annotations

import threading

import msgspec


class StoreStats(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``GET /stats``.

    ``spans``: kept, on disk. ``duplicates``: sent again and ignored. ``dropped``: received but not kept,
    = ``invalid`` (bad id or time) + ``unwritten`` (the database refused; the sender was told to retry).
    ``malformed``: bodies that were no OTLP. ``forwarded`` / ``forward_dropped``: spans, ``--forward`` only.
    ``forgotten``: kept once, and gone since (``--max-spans``).
    """

    spans: int = 0
    dropped: int = 0
    duplicates: int = 0
    invalid: int = 0
    unwritten: int = 0
    malformed: int = 0
    forwarded: int = 0
    forward_dropped: int = 0
    forgotten: int = 0


class Tally:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = StoreStats()

    def add(
        self,
        *,
        spans: int = 0,
        duplicates: int = 0,
        invalid: int = 0,
        unwritten: int = 0,
        malformed: int = 0,
        forwarded: int = 0,
        forward_dropped: int = 0,
        forgotten: int = 0,
    ) -> None:
        with self._lock:
            old = self._stats
            self._stats = StoreStats(
                spans=old.spans + spans,
                dropped=old.dropped + invalid + unwritten,
                duplicates=old.duplicates + duplicates,
                invalid=old.invalid + invalid,
                unwritten=old.unwritten + unwritten,
                malformed=old.malformed + malformed,
                forwarded=old.forwarded + forwarded,
                forward_dropped=old.forward_dropped + forward_dropped,
                forgotten=old.forgotten + forgotten,
            )

    def read(self) -> StoreStats:
        with self._lock:
            return self._stats
