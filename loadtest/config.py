"""The checked configuration of one load; `loadtest.cli` makes it from the command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from loadtest.abort_urls import AbortUrls
from loadtest.arrivals import Arrivals
from loadtest.endpoint import Endpoint
from loadtest.goodput import Goodput
from loadtest.schedule import Shapes
from loadtest.workload import WorkloadFile


class Mode(StrEnum):
    """OPEN: requests are due by the clock. CAPACITY: closed loop. REPLAY: given requests, closed loop."""

    OPEN = "open"
    CAPACITY = "capacity"
    REPLAY = "replay"


class LoadConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All a load needs to know. ``concurrency``: open requests of a closed loop.

    ``num_prompts`` None: as many as ``duration_s`` allows. ``workload``: due times and lengths from a trace
    instead of ``arrivals`` and ``shapes``. ``requests``: history file whose requests a replay repeats.
    """

    mode: Mode
    url: Endpoint
    abort_urls: AbortUrls
    out: Path
    run_id: str
    seed: int
    phase: str
    duration_s: float
    arrivals: Arrivals
    shapes: Shapes
    concurrency: int
    request_timeout_s: float
    max_send_lag_ms: float
    goodput: Goodput = Goodput()
    num_prompts: int | None = None
    workload: WorkloadFile | None = None
    requests: Path | None = None
    otlp_traces_endpoint: str | None = None

    @property
    def history_path(self) -> Path:
        """Where the records go (appended)."""
        names = {
            Mode.OPEN: "history.jsonl",
            Mode.CAPACITY: "warmup.jsonl",
            Mode.REPLAY: "control.jsonl",
        }
        return self.out / names[self.mode]
