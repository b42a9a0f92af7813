"""`serve`: everything around a worker's event loop: logging, ports, the private directory, exit codes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import uvloop

from engine.core.codes import DisaggregationMode
from engine.errors import StartupError, UsageError
from engine.model.errors import ModelPathError
from engine.model.tokenizer import Tokenizer, load_tokenizer
from engine.server.args import ServeArgs, make_scheduler_args
from engine.server.child import SchedulerChild
from engine.server.ipc import SchedulerLink
from engine.server.listen import bind, is_loopback
from engine.server.log_sink import stderr_sink

if TYPE_CHECKING:
    from engine.server.worker import Worker

EXIT_FAILED = 1
EXIT_USAGE = 2
SCHEDULER_COMMAND = (sys.executable, "-m", "engine.server.scheduler_process")

logger = logging.getLogger(__name__)


def serve(args: ServeArgs, scheduler_command: tuple[str, ...] = SCHEDULER_COMMAND) -> int:
    """Run one worker until it ends; returns its exit code.

    ``scheduler_command`` starts the scheduler child; the path of its arguments file is appended.
    0: stopped by a signal. 1: the scheduler ended or could not start. 2: a flag cannot work.
    """
    configure_logging(args)
    try:
        with ExitStack() as stack:
            return _serve(args, scheduler_command, stack)
    except UsageError as error:
        print(f"severance serve: {error}", file=sys.stderr)
        return EXIT_USAGE
    except StartupError as error:
        print(f"severance serve: {error}", file=sys.stderr)
        return EXIT_FAILED


def configure_logging(args: ServeArgs) -> None:
    """Plain lines on stderr, with the worker's name."""
    logging.basicConfig(
        level=args.log_level.upper(),
        format=f"%(asctime)s {args.worker_name} %(levelname)s %(message)s",
        stream=stderr_sink(),
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _serve(args: ServeArgs, scheduler_command: tuple[str, ...], stack: ExitStack) -> int:
    tokenizer = _load_tokenizer(args.model_path)
    listener = stack.enter_context(bind("--port", args.host, args.port))
    bootstrap_listener: socket.socket | None = None
    if args.mode is DisaggregationMode.PREFILL:
        bootstrap_listener = stack.enter_context(
            bind("--disaggregation-bootstrap-port", args.host, args.bootstrap_port)
        )
    launch = Launch(args, scheduler_command, tokenizer, listener, bootstrap_listener)
    return uvloop.run(launch.run())


class Launch:
    """Starts the scheduler first and imports the HTTP half while it loads: both take seconds."""

    def __init__(
        self,
        args: ServeArgs,
        scheduler_command: tuple[str, ...],
        tokenizer: Tokenizer,
        listener: socket.socket,
        bootstrap_listener: socket.socket | None,
    ) -> None:
        self._args = args
        self._scheduler_command = scheduler_command
        self._tokenizer = tokenizer
        self._listener = listener
        self._bootstrap_listener = bootstrap_listener
        self._incarnation = secrets.token_hex(8)

    async def run(self) -> int:
        """Run the worker; neither its child nor its private directory outlives the call."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        # Sockets and arguments are for this user alone (mode 0700). The worker removes the directory as
        # soon as both sides are connected, so that a killed one leaves nothing; this is for the rest.
        with tempfile.TemporaryDirectory(prefix="severance-") as directory:
            link = SchedulerLink(Path(directory))
            try:
                return await self._run_in(Path(directory), link, stop)
            finally:
                link.close()

    async def _run_in(self, directory: Path, link: SchedulerLink, stop: asyncio.Event) -> int:
        child = await SchedulerChild.start(
            self._scheduler_command, self._write_scheduler_args(directory, link)
        )
        try:
            worker = self._make_worker(directory, link, child)
            return await worker.run(stop)
        finally:
            await child.stop()

    def _make_worker(self, directory: Path, link: SchedulerLink, child: SchedulerChild) -> Worker:
        from engine.server.worker import Worker

        worker = Worker(
            self._args,
            incarnation=self._incarnation,
            tokenizer=self._tokenizer,
            directory=directory,
            link=link,
            child=child,
            listener=self._listener,
            bootstrap_listener=self._bootstrap_listener,
        )
        mode, url = self._args.mode, _url(self._listener)
        logger.info("%s worker %s listens on %s", mode, self._incarnation, url)
        if self._bootstrap_listener is not None:
            logger.info("rendezvous for decode workers on %s", _url(self._bootstrap_listener))
        _warn_if_open(self._args)
        return worker

    def _write_scheduler_args(self, directory: Path, link: SchedulerLink) -> Path:
        bound = self._bootstrap_listener
        scheduler_args = make_scheduler_args(
            self._args,
            bootstrap_port=bound.getsockname()[1] if bound else self._args.bootstrap_port,
            to_scheduler=link.to_scheduler,
            from_scheduler=link.from_scheduler,
            incarnation=self._incarnation,
        )
        path = directory / "scheduler.json"
        path.write_bytes(msgspec.json.encode(scheduler_args))
        return path


def _warn_if_open(args: ServeArgs) -> None:
    """Anybody who reaches the port may abort everybody's requests, unless a key is asked for."""
    if not args.keys.any_set and not is_loopback(args.host):
        logger.warning(
            "--host %s is open to the network and no key is set: anybody who reaches it can abort or pause "
            "all requests. Set --admin-api-key (and --api-key), or listen on 127.0.0.1",
            args.host,
        )


def _load_tokenizer(model_path: str) -> Tokenizer:
    try:
        return load_tokenizer(model_path)
    except ModelPathError as error:
        raise UsageError("--model-path", str(error).removeprefix("--model-path ")) from None


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
