"""The store as a process: start, wait for a signal or the parent's death, flush, exit."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import msgspec

from dashboards.spanstore.forwarder import Forwarder, parse_forward_url
from dashboards.spanstore.intake import Intake
from dashboards.spanstore.parent import PARENT_DIED, ParentWatch
from dashboards.spanstore.server import StoreServer
from dashboards.spanstore.tally import Tally
from dashboards.spanstore.writer import SpanWriter

PARENT_POLL_S = 0.5
IN_FLIGHT_S = 2.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, PARENT_DIED)


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``forward`` as typed. ``max_spans`` None: no limit. ``parent_pid`` None: the parent at the start."""

    db: Path
    host: str
    port: int
    forward: str | None = None
    max_spans: int | None = None
    parent_pid: int | None = None


def run_store(options: StoreOptions) -> int:
    """Serve until SIGTERM, SIGINT or the parent's death; 0, or 1 if spans could not be written.

    Prints ``spanstore listening on HOST:PORT`` once it takes spans. Raises `StoreError`, `UsageError`.
    """
    parent = ParentWatch(options.parent_pid)
    # Before any thread starts: blocked signals wait for `_await_end`, which races with nothing.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    tally = Tally()
    forward_to = parse_forward_url(options.forward) if options.forward else None
    writer = SpanWriter(options.db, tally, options.max_spans)
    forwarder = Forwarder(forward_to, tally) if forward_to else None
    intake = Intake(writer, tally, forwarder)
    with StoreServer(options.host, options.port, intake) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        print(f"spanstore listening on {server.address}", flush=True)
        threading.Thread(target=_warm_up, daemon=True).start()
        parent.arm()
        _await_end(parent)
        server.shutdown()
    intake.wait_idle(IN_FLIGHT_S)
    if forwarder:
        forwarder.close()
    return _farewell(writer.close(), tally)


def _warm_up() -> None:
    """Import the protobuf descriptors beside the first requests instead of before them."""
    import dashboards.spanstore.otlp_protobuf  # noqa: F401


def _await_end(parent: ParentWatch) -> None:
    while not parent.gone():
        received = signal.sigtimedwait(_SIGNALS, PARENT_POLL_S)
        if received and received.si_signo != PARENT_DIED:
            return


def _farewell(error: str | None, tally: Tally) -> int:
    stats = tally.read()
    print(f"spanstore kept {stats.spans} spans, dropped {stats.dropped}", flush=True)
    if error is None:
        return 0
    print(
        f"spanstore: the database could not be written: {error}; free some space and run again",
        file=sys.stderr,
    )
    return 1
