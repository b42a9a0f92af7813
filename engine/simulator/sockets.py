"""`SimContext` and `SimSocket`: zmq's DEALER and ROUTER, as far as our links use them, on virtual wires.

What zmq does and this keeps: a DEALER queues up to 1000 frames while it is not connected and hands them to
whoever listens next, even a restarted process; it reconnects by itself; a ROUTER names every new connection
anew and answers EHOSTUNREACH for one that is gone; what was on a lost connection is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import zmq

from engine.simulator.clock import MS_NS
from engine.simulator.network import Link, Network

HIGH_WATER_MARK = 1000
RECONNECT_NS = 100 * MS_NS
KIND_OF_PORT = {"2": "control", "3": "kv"}

Frames = tuple[bytes, ...]


class Readable(Protocol):
    """What a process reads from: a socket, or the monitor of one."""

    inbox: deque[list[bytes]]


class Sockets:
    """Who listens where, over all workers."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.listening: dict[str, SimSocket] = {}
        self.num_connections = 0

    def context(self, worker: str, wake: Callable[[Readable], None]) -> SimContext:
        return SimContext(self, worker, wake)


class SimContext:
    """The sockets of one process; `kill` closes them as the kernel would. ``wake``: there is something
    to read in a socket that had nothing."""

    def __init__(self, sockets: Sockets, worker: str, wake: Callable[[Readable], None]) -> None:
        self.sockets = sockets
        self.worker = worker
        self.wake = wake
        self._made: list[SimSocket] = []

    def as_zmq(self) -> zmq.Context[zmq.Socket[bytes]]:
        """The one place where the virtual context passes for zmq's."""
        return cast("zmq.Context[zmq.Socket[bytes]]", self)

    def socket(self, kind: int) -> SimSocket:
        made = SimSocket(self)
        self._made.append(made)
        return made

    def kill(self) -> None:
        for socket in self._made:
            socket.close()


class SimMonitor:
    """Gets a message for each connection that its socket makes, as zmq's monitor does."""

    def __init__(self, context: SimContext) -> None:
        self._context = context
        self.inbox: deque[list[bytes]] = deque()
        self.is_closed = False

    def connected(self) -> None:
        if not self.is_closed:
            self.inbox.append([zmq.EVENT_HANDSHAKE_SUCCEEDED.to_bytes(2, "little") + bytes(4)])
            if len(self.inbox) == 1:
                self._context.wake(self)

    def close(self) -> None:
        self.is_closed = True
        self.inbox.clear()


class SimSocket:
    """A DEALER once it connects, a ROUTER once it binds."""

    def __init__(self, context: SimContext) -> None:
        self.context = context
        self.inbox: deque[list[bytes]] = deque()
        self.is_closed = False
        self.routes: dict[bytes, Connection] = {}
        self.monitor: SimMonitor | None = None
        self._connection: Connection | None = None
        self._address = ""

    @property
    def closed(self) -> bool:
        return self.is_closed

    def setsockopt(self, option: int, value: int) -> None:
        """Options shape real wires; these have their own."""

    def get_monitor_socket(self, events: int) -> SimMonitor:
        self.monitor = SimMonitor(self.context)
        return self.monitor

    def disable_monitor(self) -> None:
        """Nobody is told any more."""
        self.monitor = None

    def get_string(self, option: int) -> str:
        return f"tcp://{self._address}"

    def bind(self, endpoint: str) -> None:
        self._address = endpoint.removeprefix("tcp://")
        self.context.sockets.listening[self._address] = self

    def connect(self, endpoint: str) -> None:
        address = endpoint.removeprefix("tcp://")
        server, _, port = address.rpartition(":")
        network = self.context.sockets.network
        link = network.between(KIND_OF_PORT[port], self.context.worker, server)
        self._connection = Connection(self, link, address)

    def send_multipart(self, parts: Sequence[bytes], flags: int = 0, copy: bool = True) -> None:
        """Raises zmq.Again or EHOSTUNREACH as the real one does; never waits."""
        if self._connection is not None:
            self._connection.send_forward(tuple(parts))
            return
        connection = self.routes.get(parts[0])
        if connection is None:
            raise zmq.ZMQError(zmq.EHOSTUNREACH)
        connection.send_back(tuple(parts[1:]))

    def take(self, message: list[bytes]) -> None:
        if self.is_closed:
            return
        self.inbox.append(message)
        if len(self.inbox) == 1:
            self.context.wake(self)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.inbox.clear()
        if self._connection is not None:
            self._connection.close_client()
        listening = self.context.sockets.listening
        if listening.get(self._address) is self:
            del listening[self._address]
        for connection in list(self.routes.values()):
            connection.close_server()


class Connection:
    """What a connected DEALER keeps up: one TCP connection after another over one link."""

    def __init__(self, client: SimSocket, link: Link, address: str) -> None:
        self._client = client
        self._link = link
        self._address = address
        self._sockets = client.context.sockets
        self._clock = self._sockets.network.clock
        self._pending: deque[Frames] = deque()
        self._server: SimSocket | None = None
        self._routing_id = b""
        self._epoch = 0
        self._is_up = False
        link.connections.append(self)
        self._clock.after(link.forward.latency_ns(), self._open)

    def _open(self) -> None:
        if self._client.is_closed or self._is_up:
            return
        server = self._sockets.listening.get(self._address)
        if server is None or not self._link.is_open:
            self._clock.after(RECONNECT_NS, self._open)
            return
        self._sockets.num_connections += 1
        self._routing_id = self._sockets.num_connections.to_bytes(5, "big")
        self._server = server
        self._is_up = True
        server.routes[self._routing_id] = self
        if self._client.monitor is not None:
            self._client.monitor.connected()
        while self._pending:
            self._send(self._pending.popleft())

    def send_forward(self, parts: Frames) -> None:
        if self._is_up:
            if self._link.forward.is_full:
                raise zmq.Again
            self._send(parts)
            return
        if len(self._pending) >= HIGH_WATER_MARK:
            raise zmq.Again
        self._pending.append(parts)

    def _send(self, parts: Frames) -> None:
        self._link.forward.carry(self._arrive_at_server, self._epoch, parts)

    def _arrive_at_server(self, epoch: int, parts: Frames) -> None:
        if epoch == self._epoch and self._server is not None:
            self._server.take([self._routing_id, *parts])

    def send_back(self, parts: Frames) -> None:
        if self._link.back.is_full:
            raise zmq.Again
        self._link.back.carry(self._arrive_at_client, self._epoch, parts)

    def _arrive_at_client(self, epoch: int, parts: Frames) -> None:
        if epoch == self._epoch:
            self._client.take(list(parts))

    def close_client(self) -> None:
        """The client's end is closed; the other end learns of it behind what was sent before."""
        self._pending.clear()
        self._link.forward.carry(self._end, self._epoch)

    def close_server(self) -> None:
        """The server's process is gone or has closed; the client learns of it when word gets through."""
        self._server = None
        self._link.back.carry(self._end, self._epoch)

    def _end(self, epoch: int) -> None:
        if epoch == self._epoch:
            self.lose()

    def lose(self) -> None:
        """The TCP connection is gone at both ends; a living client dials again."""
        self._epoch += 1
        was_up, self._is_up = self._is_up, False
        if self._server is not None:
            self._server.routes.pop(self._routing_id, None)
            self._server = None
        if self._client.is_closed:
            if self in self._link.connections:
                self._link.connections.remove(self)
        elif was_up:
            self._clock.after(RECONNECT_NS, self._open)
