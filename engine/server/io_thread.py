"""`IoThread`: owns every zmq socket of the scheduler process, so that a long forward never stops a beat.

    HTTP process <-ipc-> IoThread <-links-> peers
                            |  inbox -> loop; commands queue <- loop

The loop hands in commands and wakes the thread through an eventfd; the thread puts what has arrived into
the inbox. It never touches the core or a tensor.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec
import xxhash
import zmq

from engine.core.io_struct import FromScheduler, GaugeSample, SchedulerBeat, ToScheduler
from engine.core.peer import Connect, Emit, Inbound, KvTaken, SendKv, Tell
from engine.server.inbox import Inbox
from engine.transfer.links import Handler, Links, Part
from engine.transfer.pulse import LoopPulse

log = logging.getLogger(__name__)
POLL_MS = 10
BEAT_NS = 250_000_000
MAX_MESSAGES_A_TURN = 256
MAX_INBOX_MESSAGES = 65_536
"""From here on nothing but aborts and beats is taken in, until the loop has caught up."""
LARGE_BYTES = 65_536


class KvCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that the loop has copied out, ready to send."""

    send: SendKv
    data: bytes


Command = Emit | Connect | Tell | KvTaken | KvCommand


class IoThread(threading.Thread):
    """Start it once; `submit` and `inbox` are its two ends for the loop."""

    def __init__(
        self,
        to_scheduler: str,
        from_scheduler: str,
        pulse: LoopPulse,
        make_links: Callable[[Callable[[Inbound], None]], Links | None],
    ) -> None:
        super().__init__(name="io", daemon=True)
        self.inbox = Inbox()
        self.failure: BaseException | None = None
        self.num_malformed = 0
        self._pulse = pulse
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._stopping = False
        self._unsent: deque[bytes] = deque()
        self._beat_due_ns = 0
        self._decoder = msgspec.msgpack.Decoder(ToScheduler)
        self._encoder = msgspec.msgpack.Encoder()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._from_http = context.socket(zmq.PULL)
        self._from_http.connect(to_scheduler)
        self._to_http = context.socket(zmq.PUSH)
        self._to_http.setsockopt(zmq.LINGER, 500)
        self._to_http.setsockopt(zmq.SNDHWM, 100_000)
        self._to_http.connect(from_scheduler)
        self.links = make_links(self.inbox.put)

    def submit(self, commands: list[Command]) -> None:
        """Hand commands over, in order. Called by the loop."""
        for command in commands:
            self._commands.put(command)
        if commands:
            os.eventfd_write(self._wake_fd, 1)

    def stop(self) -> None:
        """Send what is queued, close every socket, end."""
        self._stopping = True
        os.eventfd_write(self._wake_fd, 1)
        self.join(timeout=2.0)

    def run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
            self._drain_commands(time.monotonic_ns())
            self._close()
        except BaseException as error:
            self.failure = error  # the loop sees it and ends the process
            log.exception("the I/O thread failed")

    def _turn(self) -> None:
        handlers = self.links.sockets() if self.links else {}
        poller = zmq.Poller()
        poller.register(self._wake_fd, zmq.POLLIN)
        poller.register(self._from_http, zmq.POLLIN)
        for socket in handlers:
            poller.register(socket, zmq.POLLIN)
        ready = {socket for socket, _ in poller.poll(POLL_MS)}
        if self._wake_fd in ready:
            os.eventfd_read(self._wake_fd)
        if self._from_http in ready:
            self._read_http()
        now_ns = time.monotonic_ns()
        if self.links:
            self.links.has_room = len(self.inbox) < MAX_INBOX_MESSAGES
        for socket, handle in handlers.items():
            if socket in ready:
                _read_all(socket, handle, now_ns)
        self._drain_commands(now_ns)
        if self.links:
            self.links.tick(now_ns)
        self._beat(now_ns)
        self._send_unsent()

    def _read_http(self) -> None:
        for _ in range(MAX_MESSAGES_A_TURN):
            try:
                frame = self._from_http.recv(zmq.DONTWAIT)
            except zmq.Again:
                return
            try:
                self.inbox.put(self._decoder.decode(frame))
            except (msgspec.DecodeError, msgspec.ValidationError):
                self.num_malformed += 1

    def _drain_commands(self, now_ns: int) -> None:
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return
            self._do(command, now_ns)

    def _do(self, command: Command, now_ns: int) -> None:
        match command:
            case Emit(message=message):
                self._emit(message)
            case Connect() if self.links:
                self.links.connect(command)
            case Tell() if self.links:
                self.links.tell(command)
            case KvTaken() if self.links:
                self.links.taken(command)
            case KvCommand(send=send, data=data) if self.links:
                self.links.send_kv(send, data, xxhash.xxh3_64_intdigest(data))
                self._flush(self.links, send.peer, now_ns)
            case _:
                log.error("a worker without links cannot do %s", type(command).__name__)

    def _flush(self, links: Links, peer: str, now_ns: int) -> None:
        """Let the frame travel while the next one is checked."""
        session = links.session_of(peer)
        if session is not None:
            links.flush(session, now_ns)

    def _emit(self, message: FromScheduler) -> None:
        if self._unsent and isinstance(message, SchedulerBeat | GaugeSample):
            return  # the HTTP process has stopped reading; the next one says the same
        self._unsent.append(self._encoder.encode(message))
        self._send_unsent()

    def _send_unsent(self) -> None:
        while self._unsent:
            try:
                self._to_http.send(self._unsent[0], zmq.DONTWAIT)
            except zmq.Again:
                return
            self._unsent.popleft()

    def _beat(self, now_ns: int) -> None:
        if now_ns >= self._beat_due_ns:
            self._beat_due_ns = now_ns + BEAT_NS
            beat = SchedulerBeat(step=self._pulse.step, step_age_ns=self._pulse.age_ns(now_ns))
            self._emit(beat)

    def _close(self) -> None:
        if self.links:
            self.links.close()
        self._send_unsent()
        self._from_http.close()
        self._to_http.close()
        os.close(self._wake_fd)


def _read_all(socket: zmq.Socket[bytes], handle: Handler, now_ns: int) -> None:
    for _ in range(MAX_MESSAGES_A_TURN):
        try:
            frames = socket.recv_multipart(zmq.DONTWAIT, copy=False)
        except zmq.ZMQError:
            return  # drained, or closed by the handler of an earlier message
        handle([_part(frame) for frame in frames], now_ns)


def _part(frame: zmq.Frame) -> Part:
    """Pages stay where zmq put them: a copy would cost fresh memory for each frame."""
    return frame.buffer if len(frame) >= LARGE_BYTES else frame.bytes
