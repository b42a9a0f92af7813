"""`Links`: what the I/O thread asks of either half's sockets, and what both halves' links share."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import zmq

from engine.core.codes import PeerState
from engine.core.io_struct import PeerSample
from engine.core.peer import Connect, Inbound, KvPages, KvTaken, PeerSaid, SendKv, Tell
from engine.transfer.errors import FrameError
from engine.transfer.peer_states import PeerStates
from engine.transfer.pulse import LoopPulse
from engine.transfer.session import MS_NS, Session
from engine.transfer.windows import SendWindow
from engine.transfer.wire import (
    MAX_CONTROL_BYTES,
    MAX_KV_BYTES,
    Beat,
    Envelope,
    Hello,
    Refused,
    Reset,
    Welcome,
    decode,
)

log = logging.getLogger(__name__)
BUSY_BEAT_NS = 100 * MS_NS
IDLE_BEAT_NS = 300 * MS_NS
HANDSHAKE_MS = 3_000
"""zmq waits 30 s for a handshake that a cut has swallowed; with 0.5 s of delay each way it takes 2 s."""
CONNECT_MS = 2_000
Part = bytes | memoryview
"""A frame of a message; a large one is zmq's own memory, which lives as long as somebody holds it."""
Handler = Callable[[Sequence[Part], int], None]
"""Takes one message and the time."""


@dataclass(slots=True)
class LinkCounters:
    """Bounded by nothing but time; shown on /metrics."""

    malformed: int = 0
    stale: int = 0
    duplicates: int = 0
    sessions_opened: int = 0
    sessions_lost: int = 0
    reconnects: int = 0
    refused: int = 0


class Links(ABC):
    """Sockets of one worker. Everything here runs on the I/O thread.

    ``context`` makes the sockets; the simulator gives one whose wires are virtual. While the loop's inbox
    has no room, messages and pages are not accepted, so their sender keeps them and sends them again.
    """

    peers_are: str
    """How people call the other half."""

    def __init__(
        self,
        deliver: Callable[[Inbound], None],
        pulse: LoopPulse,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        self._deliver = deliver
        self._pulse = pulse
        self._context: zmq.Context[zmq.Socket[bytes]] = context or zmq.Context.instance()
        self._beat_due_ns = 0
        self.has_room = True
        self.counters = LinkCounters()
        self._states = PeerStates(self.peers_are)

    @abstractmethod
    def sockets(self) -> dict[zmq.Socket[bytes], Handler]:
        """Sockets to poll, each with the function that takes its messages."""

    @abstractmethod
    def sessions(self) -> list[Session]:
        """Sessions that are up."""

    @abstractmethod
    def connect(self, command: Connect) -> None: ...

    @abstractmethod
    def session_of(self, peer: str) -> Session | None: ...

    @abstractmethod
    def _send_control(self, session: Session, parts: tuple[bytes, ...]) -> bool:
        """Hand a message to zmq without waiting. False: it would not take it now."""

    @abstractmethod
    def _send_kv(self, session: Session, parts: tuple[bytes, ...]) -> bool: ...

    @abstractmethod
    def _drop(self, session: Session) -> None:
        """Forget a lost session and close what belongs to it alone."""

    @abstractmethod
    def _advance(self, now_ns: int) -> None:
        """Whatever else this half does as time passes."""

    @abstractmethod
    def close(self) -> None: ...

    def tell(self, command: Tell) -> None:
        """To a peer that is gone nothing is said: its rooms have failed with it."""
        session = self.session_of(command.peer)
        if session is not None:
            session.push_control(command.message)

    def send_kv(self, command: SendKv, data: bytes, checksum: int) -> None:
        raise AssertionError("only prefill sends pages")

    def taken(self, command: KvTaken) -> None:
        raise AssertionError("only decode takes pages")

    def kv_credit(self) -> int:
        """Bytes of pages that each peer may have on their way here."""
        return 0

    def num_arrived_bytes(self) -> int:
        """Pages that wait for the loop."""
        return 0

    def peer_samples(self) -> tuple[PeerSample, ...]:
        """Every peer that was up, with its state. May be called from the loop's thread."""
        return self._states.samples()

    def peer_changes(self) -> dict[PeerState, int]:
        """How often a peer came into each state."""
        return dict(self._states.num_changes)

    # ---- what either half hears --------------------------------------------------------------------

    def _on_body(self, session: Session, envelope: Envelope, now_ns: int) -> None:
        """A message of the session that is up."""
        body = envelope.body
        session.heard_ns = now_ns
        match body:
            case Beat():
                for settled in session.on_beat(body, now_ns):
                    self._deliver(settled)
            case Reset():
                self.lose(session, f"{self.peers_are} {session.peer} ended the session")
            case Hello() | Welcome() | Refused() | KvPages():
                self.counters.malformed += 1
            case _ if not self.has_room:
                self.counters.refused += 1
            case _ if session.control_in.accept(envelope.seq):
                self._deliver(PeerSaid(peer=session.peer, message=body))
            case _:
                self.counters.duplicates += 1

    def _on_reconnect(self, session: Session, window: SendWindow, now_ns: int) -> None:
        """The session outlives its connections; what was on the old one may be lost."""
        self.counters.reconnects += 1
        log.info("%s %s: connected again, %d to resend", self.peers_are, session.peer, len(window))
        session.reconnected(window, now_ns)
        self.beat(session, now_ns)
        self.flush(session, now_ns)

    # ---- as time passes ----------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Send what may be sent, beat when due, judge who is alive."""
        self._advance(now_ns)
        beat_is_due = now_ns >= self._beat_due_ns
        if beat_is_due:
            period_ns = BUSY_BEAT_NS if self._pulse.rooms_open else IDLE_BEAT_NS
            self._beat_due_ns = now_ns + period_ns
        for session in self.sessions():
            lost = session.verdict(now_ns)
            if lost is not None:
                self._give_up(session, lost.message)
                continue
            if beat_is_due or session.num_unacked:
                self.beat(session, now_ns)
            if beat_is_due:
                self._states.heartbeat(session.peer, session.phi.value(now_ns))
            session.rewind_overdue(now_ns)
            self.flush(session, now_ns)

    def _give_up(self, session: Session, message: str) -> None:
        """Judged dead here. If one direction still works, the peer need not find out by itself."""
        self._send_control(session, (session.envelope(Reset()),))
        self.lose(session, message)

    def beat(self, session: Session, now_ns: int) -> None:
        session.num_unacked = 0
        pulse = self._pulse
        age_ns = pulse.age_ns(now_ns)
        frame = session.beat(pulse.step, age_ns, pulse.longest_step_ns, self.kv_credit())
        self._send_control(session, (frame,))

    def flush(self, session: Session, now_ns: int) -> None:
        self._flush(session, session.control_out, self._send_control, now_ns)
        self._flush(session, session.kv_out, self._send_kv, now_ns)

    def _flush(
        self,
        session: Session,
        window: SendWindow,
        send: Callable[[Session, tuple[bytes, ...]], bool],
        now_ns: int,
    ) -> None:
        frame = window.peek()
        while frame is not None and send(session, frame.parts):
            window.sent(now_ns)
            frame = window.peek()

    def lose(self, session: Session, message: str) -> None:
        """The session is over: tell the core, free its staging space, forget it."""
        self.counters.sessions_lost += 1
        log.warning(
            "session %d with %s %s is lost: %s",
            session.number,
            self.peers_are,
            session.peer,
            message,
        )
        self._states.dead(session.peer)
        self._drop(session)
        for settled in session.abandon():
            self._deliver(settled)
        self._deliver(session.lost(message))

    def _opened(self, session: Session) -> None:
        self.counters.sessions_opened += 1
        self._states.alive(session.peer)
        log.info("session %d with %s %s is up", session.number, self.peers_are, session.peer)

    def read(self, frames: Sequence[Part]) -> Envelope | None:
        """The envelope of a message; None for one that cannot be read, which is counted."""
        try:
            return decode(frames[0])
        except (FrameError, IndexError):
            self.counters.malformed += 1
            return None


def open_socket(
    context: zmq.Context[zmq.Socket[bytes]], kind: int, max_bytes: int
) -> zmq.Socket[bytes]:
    """A socket that never waits at close, reconnects fast, and bounds what it accepts."""
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 1000)
    socket.setsockopt(zmq.RCVHWM, 1000)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
    return socket


def bind(socket: zmq.Socket[bytes], address: str) -> None:
    """Listen on ``host:port``; a socket that cannot is closed before the error goes on."""
    try:
        socket.bind(f"tcp://{address}")
    except zmq.ZMQError as error:
        socket.close()
        log.error("cannot listen on %s: %s; free the port or choose another", address, error)
        raise


def open_control(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    return open_socket(context, kind, MAX_CONTROL_BYTES)


def open_kv(context: zmq.Context[zmq.Socket[bytes]], kind: int) -> zmq.Socket[bytes]:
    return open_socket(context, kind, MAX_KV_BYTES)


def try_send(socket: zmq.Socket[bytes], parts: tuple[bytes, ...]) -> bool:
    """Send without waiting; large frames by reference (they are immutable bytes)."""
    try:
        socket.send_multipart(parts, flags=zmq.DONTWAIT, copy=all(len(p) < 65536 for p in parts))
    except zmq.Again:
        return False
    except zmq.ZMQError as error:
        if error.errno != zmq.EHOSTUNREACH:
            raise
        return False
    return True
