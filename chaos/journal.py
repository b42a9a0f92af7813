"""Writes the run directory's records (`chaos.records`), from any thread."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import msgspec

from chaos.errors import JournalLost
from chaos.records import (
    EventKind,
    FaultRecord,
    LedgerSample,
    ProcessRecord,
    RunEvent,
    RunInfo,
    WorkerLedger,
)


class Journal:
    """``faults.jsonl`` and ``processes.jsonl`` are on disk before the act they name (write-ahead)."""

    def __init__(self, directory: Path, run_id: str) -> None:
        self.directory = directory
        self.run_id = run_id
        self.host = socket.gethostname()
        self.num_lost = 0
        """Events and samples that could not be written (a full disk)."""
        self._lock = threading.Lock()

    def event(
        self,
        kind: EventKind,
        name: str,
        *,
        ok: bool | None = None,
        value: float | None = None,
        limit: float | None = None,
        detail: str = "",
    ) -> RunEvent:
        record = RunEvent(
            kind=kind,
            name=name,
            at_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            host=self.host,
            run_id=self.run_id,
            ok=ok,
            value=value,
            limit=limit,
            detail=detail,
        )
        self._append("events.jsonl", record)
        return record

    def ledger(
        self, phase: str, worker: str, ledger: WorkerLedger | None, error: str | None = None
    ) -> None:
        sample = LedgerSample(
            phase=phase,
            worker=worker,
            at_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            host=self.host,
            run_id=self.run_id,
            ledger=ledger,
            error=error,
        )
        self._append("ledger.jsonl", sample)

    def fault(self, record: FaultRecord) -> None:
        self._append("faults.jsonl", record, sync=True)

    def process(self, record: ProcessRecord) -> None:
        self._append("processes.jsonl", record, sync=True)

    def run_info(self, info: RunInfo) -> None:
        """Replace `run.json` whole: a reader sees the old one or the new one."""
        path = self.directory / "run.json"
        fresh = path.with_suffix(".json.new")
        try:
            fresh.write_bytes(msgspec.json.format(msgspec.json.encode(info), indent=2) + b"\n")
            fresh.replace(path)
        except OSError as error:
            raise JournalLost(f"run.json cannot be written: {error}") from error

    def _append(self, name: str, record: msgspec.Struct, sync: bool = False) -> None:
        """Raises `JournalLost` if a record that goes ahead of an act is not on disk. Others are counted:
        a full disk must not keep anybody from healing."""
        line = msgspec.json.encode(record) + b"\n"
        try:
            with self._lock, (self.directory / name).open("ab", buffering=0) as file:
                file.write(line)
                if sync:
                    os.fsync(file.fileno())
        except OSError as error:
            if sync:
                raise JournalLost(f"{name} cannot be written: {error.strerror}") from error
            self.num_lost += 1
