"""One load from start to end, inside locust. Nothing may import gevent's victims before this module."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import time

import gevent
from locust.env import Environment

from loadtest.capacity import CapacityMeter
from loadtest.client import Client, Finished
from loadtest.config import LoadConfig, Mode
from loadtest.connection import resolve
from loadtest.driver import ClosedLoop, Driver, OpenLoop
from loadtest.errors import Halted
from loadtest.progress import progress_line, show_progress
from loadtest.prompts import make_prompt
from loadtest.slots import slots_of
from loadtest.summary import latencies, percentile, summarize, write_capacity, write_summary
from loadtest.tracing import Tracing
from loadtest.user import LocustEvents, user_class
from loadtest.writer import HistoryWriter

EXIT_OK = 0
EXIT_OWN_ERROR = 1
EXIT_LATE = 4
EXIT_INTERRUPTED = 130


def run_load(config: LoadConfig) -> int:
    """Run it, write the files of `LoadConfig.out`, return the exit code.

    Raises a `LoadError` if it cannot start.
    """
    slots = slots_of(config)
    _warm_up(config)
    config.out.mkdir(parents=True, exist_ok=True)
    with HistoryWriter(config.history_path) as writer:
        load = _Load(config, writer)
        if config.mode is Mode.OPEN:
            load.drive(OpenLoop(load.client, slots))
            load.write_summary()
        else:
            limit_s = config.duration_s if config.mode is Mode.CAPACITY else None
            loop = ClosedLoop(load.client, slots, config.concurrency, limit_s)
            load.drive(loop)
            if config.mode is Mode.CAPACITY:
                capacity = load.meter.measure(loop.start_ns, config.duration_s)
                write_capacity(config.out / "capacity.json", capacity)
    return load.exit_code()


def _warm_up(config: LoadConfig) -> None:
    """Do once, now, what would make the first requests late. An unknown host is each request's error."""
    make_prompt(0, 0, 1)
    for endpoint in (config.url, *config.abort_urls.all):
        with contextlib.suppress(OSError):
            resolve(endpoint)


class _Load:
    """The parts of one load, wired."""

    def __init__(self, config: LoadConfig, writer: HistoryWriter) -> None:
        self._config = config
        self._environment = Environment()
        self._locust = LocustEvents(self._environment)
        self._tracing = Tracing(config.otlp_traces_endpoint, config.run_id)
        self.meter = CapacityMeter()
        self.client = Client(config, writer, self._tracing, self._on_finished)
        self._interrupted = False
        self._elapsed_s = 0.0

    def drive(self, driver: Driver) -> None:
        """Run the one locust user to its end, then send the last spans."""
        self._environment.user_classes = [user_class(driver)]
        self._environment.events.user_error.add_listener(self._on_user_error)
        runner = self._environment.create_local_runner()
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, self._interrupt, driver)
        gevent.get_hub().NOT_ERROR += (
            Halted,
        )  # a greenlet that ends by it is not worth a traceback
        progress = gevent.spawn(show_progress, self.client.stats)
        gc.freeze()  # what exists now is not scanned again: shorter pauses, smaller send lag
        start = time.monotonic()
        runner.start(user_count=1, spawn_rate=1)
        if runner.spawning_greenlet is not None:
            runner.spawning_greenlet.join()
        runner.user_greenlets.join()
        self._elapsed_s = time.monotonic() - start
        progress.kill()
        runner.quit()
        self._tracing.shutdown()
        print(progress_line(self.client.stats, self._elapsed_s), file=sys.stderr, flush=True)

    def write_summary(self) -> None:
        summary = summarize(
            self.client.stats,
            run_id=self._config.run_id,
            seed=self._config.seed,
            duration_s=self._elapsed_s,
            max_send_lag_ms=self._config.max_send_lag_ms,
            interrupted=self._interrupted,
            spans_dropped=self._tracing.num_dropped,
        )
        write_summary(self._config.out / "load.json", summary, latencies(self.client.stats))

    def exit_code(self) -> int:
        """The gravest of what happened; says on stderr what it was."""
        if self.client.own_errors:
            first = self.client.own_errors[0]
            print(f"severance load: {type(first).__name__}: {first}", file=sys.stderr)
            return EXIT_OWN_ERROR
        if self._interrupted:
            return EXIT_INTERRUPTED
        lag_ms = percentile(sorted(self.client.stats.send_lag_ms), 99)
        if self._config.mode is Mode.OPEN and lag_ms > self._config.max_send_lag_ms:
            print(
                f"severance load: requests left late (send lag p99 {lag_ms:.0f} ms, allowed "
                f"{self._config.max_send_lag_ms:g}): the latencies are not valid. "
                "Lower --request-rate, or give the driver a core of its own.",
                file=sys.stderr,
            )
            return EXIT_LATE
        return EXIT_OK

    def _interrupt(self, driver: Driver) -> None:
        self._interrupted = True
        driver.stop()

    def _on_finished(self, finished: Finished) -> None:
        self.meter.take(finished)
        self._locust(finished)

    def _on_user_error(self, exception: BaseException, **_facts: object) -> None:
        self.client.own_errors.append(exception)
