"""`DecodeLinks`: decode listens for pages and dials each prefill's bootstrap and control addresses.

    resolving (GET /route) -> greeting (HELLO every 100 ms) -> up -> lost -> resolving ...

A lost session is followed by the next at once, so after a heal the pair serves again by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import xxhash
import zmq

from engine.core.peer import Connect, Inbound, KvArrived, KvPages, KvTaken, PeerUp
from engine.transfer.arrivals import credit_of_each
from engine.transfer.errors import RouteError
from engine.transfer.links import Handler, Links, Part, bind, open_control, open_kv, try_send
from engine.transfer.monitor import close_watched, is_connected_event, watch
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Resolver, Route, RouteSource
from engine.transfer.session import MS_NS, Identity, Session
from engine.transfer.wire import Envelope, Hello, Refused, Welcome

log = logging.getLogger(__name__)
RESOLVE_PERIOD_NS = 250 * MS_NS
HELLO_PERIOD_NS = 100 * MS_NS
ASK_AGAIN_NS = 1_500 * MS_NS
"""A greeting without answer: perhaps the prefill lives elsewhere by now."""
GREET_FOR_NS = 6_000 * MS_NS
"""With 0.5 s of delay each way, a connection and a greeting take 2.5 s."""
MAX_UNACKED = 8


class _State(StrEnum):
    RESOLVING = "resolving"
    GREETING = "greeting"
    UP = "up"


@dataclass(slots=True)
class _Prefill:
    """One prefill, known by its bootstrap address."""

    peer: str
    resolver: RouteSource
    state: _State = _State.RESOLVING
    route: Route | None = None
    session: Session | None = None
    control: zmq.Socket[bytes] | None = None
    control_monitor: zmq.Socket[bytes] | None = None
    was_connected: bool = False
    next_try_ns: int = 0
    greeting_since_ns: int = 0
    told_errors: set[str] = field(default_factory=set)


class DecodeLinks(Links):
    """kv ROUTER (bound) and one control DEALER for each prefill."""

    peers_are = "prefill"

    def __init__(
        self,
        identity: Identity,
        address: str,
        dial: AddressMap,
        deliver: Callable[[Inbound], None],
        pulse: LoopPulse,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
        make_resolver: Callable[[str], RouteSource] = Resolver,
    ) -> None:
        super().__init__(deliver, pulse, context)
        self._make_resolver = make_resolver
        self._identity = identity
        self._dial = dial
        self._prefills: dict[str, _Prefill] = {}
        self._num_sessions = 0
        self._kv = open_kv(self._context, zmq.ROUTER)
        bind(self._kv, address)
        self._kv_address = str(self._kv.get_string(zmq.LAST_ENDPOINT)).removeprefix("tcp://")

    @property
    def kv_address(self) -> str:
        return self._kv_address

    def sockets(self) -> dict[zmq.Socket[bytes], Handler]:
        found: dict[zmq.Socket[bytes], Handler] = {self._kv: self._on_kv}
        for prefill in self._prefills.values():
            if prefill.control is not None and prefill.control_monitor is not None:
                found[prefill.control] = self._on_control
                found[prefill.control_monitor] = partial(self._on_control_event, prefill)
        return found

    def sessions(self) -> list[Session]:
        return [
            prefill.session
            for prefill in self._prefills.values()
            if prefill.state is _State.UP and prefill.session is not None
        ]

    def session_of(self, peer: str) -> Session | None:
        prefill = self._prefills.get(peer)
        return prefill.session if prefill and prefill.state is _State.UP else None

    def connect(self, command: Connect) -> None:
        """Begin to look for a prefill, once; from then on its link is kept up."""
        if command.peer not in self._prefills:
            address = self._dial.dial("bootstrap", command.peer)
            self._prefills[command.peer] = _Prefill(command.peer, self._make_resolver(address))

    # ---- from nothing to a session -----------------------------------------------------------------

    def _advance(self, now_ns: int) -> None:
        for prefill in self._prefills.values():
            match prefill.state:
                case _State.RESOLVING:
                    self._resolve(prefill, now_ns)
                case _State.GREETING:
                    self._greet(prefill, now_ns)
                case _State.UP:
                    pass

    def _resolve(self, prefill: _Prefill, now_ns: int) -> None:
        answer = prefill.resolver.answer()
        if isinstance(answer, RouteError):
            self._tell_once(prefill, str(answer))
            prefill.next_try_ns = now_ns + RESOLVE_PERIOD_NS
            # The rendezvous may be cut off while the control link is fine: try the old route too.
            if prefill.route is not None:
                self._start_greeting(prefill, prefill.route, now_ns)
        elif answer is not None:
            self._start_greeting(prefill, answer, now_ns)
        elif now_ns >= prefill.next_try_ns:
            prefill.resolver.ask()

    def _tell_once(self, prefill: _Prefill, text: str) -> None:
        if text not in prefill.told_errors and len(prefill.told_errors) < 32:
            prefill.told_errors.add(text)
            log.warning("prefill %s: %s", prefill.peer, text)

    def _start_greeting(self, prefill: _Prefill, route: Route, now_ns: int) -> None:
        self._close_control(prefill)
        self._num_sessions += 1
        prefill.route = route
        prefill.control = open_control(self._context, zmq.DEALER)
        prefill.control_monitor = watch(prefill.control)
        prefill.was_connected = False
        address = self._dial.dial("control", f"{route.control_host}:{route.control_port}")
        prefill.control.connect(f"tcp://{address}")
        prefill.session = Session(
            identity=self._identity,
            peer=prefill.peer,
            number=self._num_sessions,
            to="",
            heard_ns=now_ns,
        )
        prefill.state = _State.GREETING
        prefill.greeting_since_ns = now_ns
        prefill.next_try_ns = now_ns

    def _greet(self, prefill: _Prefill, now_ns: int) -> None:
        greeted_ns = now_ns - prefill.greeting_since_ns
        if greeted_ns > GREET_FOR_NS:
            prefill.state = _State.RESOLVING
            return
        if greeted_ns > ASK_AGAIN_NS:
            answer = prefill.resolver.answer()
            if isinstance(answer, Route) and answer != prefill.route:
                self._start_greeting(prefill, answer, now_ns)
                return
        if now_ns >= prefill.next_try_ns and prefill.session and prefill.control:
            prefill.next_try_ns = now_ns + HELLO_PERIOD_NS
            if greeted_ns > ASK_AGAIN_NS:
                prefill.resolver.ask()
            if self._pulse.stands_still(now_ns):
                return
            hello = Hello(
                kv_address=self._kv_address,
                fingerprint=self._identity.fingerprint,
                page_bytes=self._identity.page_bytes,
            )
            try_send(prefill.control, (prefill.session.envelope(hello),))

    # ---- control -------------------------------------------------------------------------------------

    def _on_control(self, frames: Sequence[Part], now_ns: int) -> None:
        envelope = self.read(frames)
        if envelope is None:
            return
        prefill = self._addressed(envelope)
        if prefill is None or prefill.session is None:
            self.counters.stale += 1
            return
        match envelope.body:
            case Welcome():
                self._on_welcome(prefill, prefill.session, envelope, now_ns)
            case Refused(message=message):
                self._tell_once(prefill, f"refused: {message}")
            case _ if prefill.state is not _State.UP or envelope.incarnation != prefill.session.to:
                self.counters.stale += 1
            case _:
                self._on_body(prefill.session, envelope, now_ns)

    def _on_control_event(self, prefill: _Prefill, frames: Sequence[Part], now_ns: int) -> None:
        if not is_connected_event(frames):
            return
        if prefill.was_connected and prefill.state is _State.UP and prefill.session is not None:
            self._on_reconnect(prefill.session, prefill.session.control_out, now_ns)
        prefill.was_connected = True

    def _on_welcome(
        self, prefill: _Prefill, session: Session, envelope: Envelope, now_ns: int
    ) -> None:
        if prefill.state is not _State.GREETING:
            return
        session.to = envelope.incarnation
        session.heard_ns = now_ns
        prefill.state = _State.UP
        prefill.told_errors.clear()
        self._opened(session)
        self._deliver(PeerUp(peer=prefill.peer, incarnation=session.to))
        self.beat(session, now_ns)

    def _addressed(self, envelope: Envelope) -> _Prefill | None:
        """The prefill whose current session a frame belongs to; frames for a predecessor have none."""
        if envelope.to != self._identity.incarnation:
            return None
        for prefill in self._prefills.values():
            if prefill.session is not None and prefill.session.number == envelope.session:
                return prefill
        return None

    # ---- kv --------------------------------------------------------------------------------------------

    def _on_kv(self, frames: Sequence[Part], now_ns: int) -> None:
        """ROUTER puts the sender's routing id first; then envelope and pages."""
        envelope = self.read(frames[1:2])
        if envelope is None:
            return
        body = envelope.body
        if not isinstance(body, KvPages) or len(frames) != 3:
            self.counters.malformed += 1
            return
        prefill = self._addressed(envelope)
        session = prefill.session if prefill and prefill.state is _State.UP else None
        if prefill is None or session is None or envelope.incarnation != session.to:
            self.counters.stale += 1
        elif not (self.has_room and session.arrivals.has_room):
            self.counters.refused += 1
        elif not session.kv_in.accept(envelope.seq):
            self.counters.duplicates += 1
            self._owe_ack(session, now_ns)
        else:
            session.arrivals.came(envelope.seq, len(frames[1]) + len(frames[2]))
            self._take_pages(session, envelope.seq, body, frames[2], now_ns)

    def _take_pages(
        self, session: Session, seq: int, header: KvPages, data: Part, now_ns: int
    ) -> None:
        intact = (
            len(data) == header.num_pages * self._identity.page_bytes
            and xxhash.xxh3_64_intdigest(data) == header.checksum
        )
        arrived = KvArrived(
            peer=session.peer,
            header=header,
            data=data,
            intact=intact,
            session=session.number,
            seq=seq,
        )
        self._deliver(arrived)
        self._owe_ack(session, now_ns)  # the ack frees staging space over there

    def _owe_ack(self, session: Session, now_ns: int) -> None:
        """At the next tick, or now if many frames came in one go: a beat a frame costs a tenth of it."""
        session.num_unacked += 1
        if session.num_unacked >= MAX_UNACKED:
            self.beat(session, now_ns)

    def kv_credit(self) -> int:
        return credit_of_each(len(self._prefills))

    def num_arrived_bytes(self) -> int:
        """Pages that wait for the loop, of all prefills."""
        return sum(session.arrivals.num_bytes for session in self.sessions())

    def taken(self, command: KvTaken) -> None:
        session = self.session_of(command.peer)
        if session is None or session.number != command.session:
            return
        # Every beat says what was taken; who may be waiting for it hears it at once.
        if 2 * session.arrivals.num_bytes > self.kv_credit():
            session.num_unacked += 1
        session.arrivals.taken(command.seq)

    # ---- sending ---------------------------------------------------------------------------------------

    def _send_control(self, session: Session, parts: tuple[bytes, ...]) -> bool:
        prefill = self._prefills.get(session.peer)
        return (
            prefill is not None and prefill.control is not None and try_send(prefill.control, parts)
        )

    def _send_kv(self, session: Session, parts: tuple[bytes, ...]) -> bool:
        return False

    def _drop(self, session: Session) -> None:
        prefill = self._prefills.get(session.peer)
        if prefill is not None and prefill.session is session:
            prefill.state = _State.RESOLVING
            prefill.next_try_ns = 0
            prefill.session = None
            self._close_control(prefill)

    def _close_control(self, prefill: _Prefill) -> None:
        if prefill.control is not None and prefill.control_monitor is not None:
            close_watched(prefill.control, prefill.control_monitor)
            prefill.control = prefill.control_monitor = None

    def close(self) -> None:
        for prefill in self._prefills.values():
            self._close_control(prefill)
        self._kv.close()
