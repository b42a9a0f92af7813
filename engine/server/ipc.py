"""`SchedulerLink`: the two ipc sockets between the HTTP process and its scheduler."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import zmq
import zmq.asyncio

from engine.core.io_struct import FromScheduler, ToScheduler
from engine.errors import StartupError, UnavailableError

MAX_PATH_BYTES = 100  # a Unix socket's path ends at 107
_HIGH_WATER = 65_536

logger = logging.getLogger(__name__)


class SchedulerLink:
    """PUSH to the scheduler, PULL from it; this side binds. Use inside a running event loop.

    One frame a message, msgspec msgpack. A malformed frame is counted and dropped.
    """

    def __init__(self, directory: Path) -> None:
        self.to_scheduler = f"ipc://{directory}/to_scheduler"
        self.from_scheduler = f"ipc://{directory}/from_scheduler"
        if len(str(directory).encode()) > MAX_PATH_BYTES - len("/from_scheduler"):
            raise StartupError(f"the path {directory} is too long for a socket: set TMPDIR to /tmp")
        self.num_malformed = 0
        self._context = zmq.asyncio.Context()
        # A plain socket: sending must not yield, so that state and message change together.
        self._push = zmq.Context(self._context).socket(zmq.PUSH)
        self._pull = self._context.socket(zmq.PULL)
        for socket in (self._push, self._pull):
            socket.setsockopt(zmq.LINGER, 0)
        self._push.setsockopt(zmq.SNDHWM, _HIGH_WATER)
        self._pull.setsockopt(zmq.RCVHWM, _HIGH_WATER)
        self._push.bind(self.to_scheduler)
        self._pull.bind(self.from_scheduler)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(FromScheduler)

    def send(self, message: ToScheduler) -> None:
        """Queue a message; raises `UnavailableError` when the scheduler has stopped reading."""
        try:
            self._push.send(self._encoder.encode(message), zmq.NOBLOCK)
        except zmq.Again:
            raise UnavailableError("the scheduler does not take messages; see /health") from None

    async def receive(self) -> FromScheduler:
        """The next well-formed message."""
        while True:
            frames = await self._pull.recv_multipart()
            try:
                if len(frames) != 1:
                    raise msgspec.DecodeError(f"{len(frames)} frames in one message")
                return self._decoder.decode(frames[0])
            except msgspec.DecodeError as error:
                self.num_malformed += 1
                logger.warning("dropped a malformed frame from the scheduler: %s", error)

    def close(self) -> None:
        """Drop what is queued and close both sockets."""
        self._push.close()
        self._pull.close()
        self._context.term()
