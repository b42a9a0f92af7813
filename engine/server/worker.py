"""`Worker`: the HTTP process of a worker, from its first request to its last span."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import time
from pathlib import Path

from engine.errors import UnavailableError
from engine.model.tokenizer import Tokenizer
from engine.server.admin import AdminRoutes
from engine.server.app import make_app
from engine.server.args import ServeArgs
from engine.server.bootstrap_server import make_bootstrap_app
from engine.server.child import SchedulerChild, describe_exit
from engine.server.generate import GenerateEndpoint
from engine.server.health import HealthRoutes
from engine.server.http_server import HttpServer
from engine.server.info import InfoRoutes
from engine.server.ipc import SchedulerLink
from engine.server.observer import RequestObserver
from engine.server.tokenizer_manager import TokenizerManager
from engine.telemetry.metrics import EngineMetrics
from engine.telemetry.provider import Telemetry, WorkerIdentity, make_telemetry

CONNECT_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 1.0
SPAN_FLUSH_S = 2.0
EXIT_OK = 0
EXIT_FAILED = 1

logger = logging.getLogger(__name__)


class Worker:
    """Build it inside the running event loop, then `run` it once."""

    def __init__(
        self,
        args: ServeArgs,
        *,
        incarnation: str,
        tokenizer: Tokenizer,
        directory: Path,
        link: SchedulerLink,
        child: SchedulerChild,
        listener: socket.socket,
        bootstrap_listener: socket.socket | None,
    ) -> None:
        self._child = child
        self._directory = directory
        self._telemetry = make_telemetry(
            WorkerIdentity(role=args.mode, worker=args.worker_name, incarnation=incarnation),
            args.otlp_traces_endpoint,
        )
        metrics = EngineMetrics(role=args.mode, worker=args.worker_name, model_name=args.model_path)
        self._manager = TokenizerManager(
            mode=args.mode,
            link=link,
            observer=RequestObserver(self._telemetry, metrics),
            metrics=metrics,
        )
        _show_counts(metrics, self._telemetry, link, self._manager)
        app = make_app(
            GenerateEndpoint(self._manager, tokenizer, args.bootstrap_port),
            HealthRoutes(self._manager),
            AdminRoutes(self._manager, args.worker_name, args.keys),
            InfoRoutes(args, incarnation, self._manager, metrics),
            args.keys,
        )
        self._servers = [HttpServer(app, listener)]
        if bootstrap_listener is not None:
            bootstrap = make_bootstrap_app(args, incarnation, self._manager.watch)
            self._servers.append(HttpServer(bootstrap, bootstrap_listener))

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until ``stop`` is set (0), or until the scheduler ends (1)."""
        receiving = asyncio.create_task(self._manager.receive_forever())
        tidying = asyncio.create_task(self._remove_directory())
        serving = [asyncio.create_task(server.run_until_stopped()) for server in self._servers]
        stopping = asyncio.create_task(stop.wait())
        ending = asyncio.create_task(self._child.wait())
        try:
            done, _ = await asyncio.wait(
                {receiving, *serving, stopping, ending}, return_when=asyncio.FIRST_COMPLETED
            )
            _log_failures(done)
            if ending.done():
                code = await self._scheduler_ended(ending.result())
            else:
                code = await self._stopped(asked=stopping.done())
            await asyncio.gather(*serving)
        finally:
            for task in (receiving, tidying, stopping, *serving):
                task.cancel()
            await asyncio.to_thread(self._telemetry.shutdown, SPAN_FLUSH_S)
        return code

    async def _remove_directory(self) -> None:
        """Remove the private directory once its sockets have served: an answer used both of them."""
        await self._manager.watch.became_ready.wait()
        try:
            await self._manager.control.ask("health", timeout_s=CONNECT_TIMEOUT_S)
        except UnavailableError as error:
            logger.warning("%s is kept until the end: %s", self._directory, error)
            return
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    async def _stopped(self, *, asked: bool) -> int:
        """A signal came, or one of our own tasks broke: abort and answer everything."""
        logger.info("stopping: %d open requests are aborted", self._manager.num_open)
        self._manager.abort_all_for_shutdown("the worker is shutting down")
        for server in self._servers:
            server.stop()
        if not await self._manager.drained(DRAIN_TIMEOUT_S):
            self._manager.end_all("the worker is shutting down; the scheduler did not answer")
        return EXIT_OK if asked else EXIT_FAILED

    async def _scheduler_ended(self, code: int) -> int:
        """The child is gone: answer every open request, then give up."""
        was_ready = self._manager.watch.ready is not None
        how = describe_exit(code)
        self._manager.end_all(f"the scheduler process ended ({how})")
        for server in self._servers:
            server.stop()
        if not was_ready:
            logger.error(
                "the scheduler could not start (%s): %s", how, await self._child.last_words()
            )
        else:
            logger.error("the scheduler process ended (%s); this worker ends too", how)
        return EXIT_FAILED


def _log_failures(done: set[asyncio.Task[int | None]]) -> None:
    for task in done:
        if (error := task.exception()) is not None:
            logger.error("a task of the worker failed: %r", error, exc_info=error)


def _show_counts(
    metrics: EngineMetrics, telemetry: Telemetry, link: SchedulerLink, manager: TokenizerManager
) -> None:
    metrics.show_size("rid_to_state", lambda: manager.num_open)
    metrics.show_size("early_aborts", lambda: manager.early_aborts.count(time.monotonic_ns()))
    metrics.show_size("spans_waiting", lambda: telemetry.counts.num_open)
    metrics.show_count(
        "severance_spans_dropped", "Spans that were lost", lambda: telemetry.counts.num_dropped
    )
    metrics.show_count(
        "severance_malformed_frames",
        "Frames dropped, from the scheduler",
        lambda: link.num_malformed,
    )
    metrics.show_count(
        "severance_unknown_outputs",
        "Scheduler output for requests that are not open",
        lambda: manager.num_unknown_outputs,
    )
