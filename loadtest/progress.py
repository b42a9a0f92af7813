"""One line a second on stderr while a load runs."""

from __future__ import annotations

import sys
import time

import gevent

from loadtest.stats import LoadStats

_PERIOD_S = 1.0


def show_progress(stats: LoadStats) -> None:
    """Never returns; kill its greenlet."""
    start = time.monotonic()
    while True:
        gevent.sleep(_PERIOD_S)
        print(progress_line(stats, time.monotonic() - start), file=sys.stderr, flush=True)


def progress_line(stats: LoadStats, elapsed_s: float) -> str:
    now = stats.progress()
    return (
        f"load {elapsed_s:4.0f} s: sent {now.sent}, open {now.open}, completed {now.completed}, "
        f"aborted {now.aborted}, failed {now.failed}"
    )
