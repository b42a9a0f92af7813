"""`HttpServer`: uvicorn on a socket that we bound, without its signal handlers and logs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

KEEP_ALIVE_S = 75
"""Above a router's own idle time (50 s), so that it never reuses a connection we just closed."""
GRACEFUL_S = 2


class HttpServer(uvicorn.Server):
    """Serves ``app`` on ``listener`` until `stop`."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACEFUL_S,
            )
        )
        self._listener = listener

    async def run_until_stopped(self) -> None:
        """Accept and answer; after `stop`, returns when open answers are out (2 s at the most)."""
        await self.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Accept nothing new, finish what is open."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the worker, which aborts open requests first."""
        yield
