"""`DecodeLinks`: decode listens for pages and dials each prefill's bootstrap and control addresses.

    resolving (GET /route) -> greeting (HELLO every 100 ms) -> up -> lost -> resolving ...

A lost session is followed by the next at once, so after a heal the pair serves again by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import xxhash
import zmq

from engine.core.peer import Connect, Inbound, KvArrived, KvPages, PeerSaid, PeerUp
from engine.transfer.errors import RouteError
from engine.transfer.links import Handler, Links, Part, bind, open_control, open_kv, try_send
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap, Resolver, Route, RouteSource
from engine.transfer.session import MS_NS, Identity, Session
from engine.transfer.wire import Beat, Envelope, Hello, Refused, Reset, Welcome

log = logging.getLogger(__name__)
RESOLVE_PERIOD_NS = 250 * MS_NS
HELLO_PERIOD_NS = 100 * MS_NS
GREET_FOR_NS = 1_500 * MS_NS
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
    next_try_ns: int = 0
    greeting_since_ns: int = 0
    told_errors: set[str] = field(default_factory=set)


class DecodeLinks(Links):
    """kv ROUTER (bound) and one control DEALER for each prefill."""

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
            if prefill.control is not None:
                found[prefill.control] = self._on_control
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
        if now_ns - prefill.greeting_since_ns > GREET_FOR_NS:
            prefill.state = _State.RESOLVING
        elif now_ns >= prefill.next_try_ns and prefill.session and prefill.control:
            prefill.next_try_ns = now_ns + HELLO_PERIOD_NS
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
                prefill.session.heard_ns = now_ns
                self._on_message(prefill.session, envelope, now_ns)

    def _on_welcome(
        self, prefill: _Prefill, session: Session, envelope: Envelope, now_ns: int
    ) -> None:
        if prefill.state is not _State.GREETING:
            return
        session.to = envelope.incarnation
        session.heard_ns = now_ns
        prefill.state = _State.UP
        prefill.told_errors.clear()
        self.counters.sessions_opened += 1
        log.info("session %d with prefill %s is up", session.number, prefill.peer)
        self._deliver(PeerUp(peer=prefill.peer, incarnation=session.to))
        self.beat(session, now_ns)

    def _on_message(self, session: Session, envelope: Envelope, now_ns: int) -> None:
        body = envelope.body
        match body:
            case Beat():
                for settled in session.on_beat(body, now_ns):
                    self._deliver(settled)
            case Reset():
                self.lose(session, f"prefill {session.peer} ended the session")
            case Hello() | Welcome() | Refused() | KvPages():
                self.counters.malformed += 1
            case _:
                if session.control_in.accept(envelope.seq):
                    self._deliver(PeerSaid(peer=session.peer, message=body))
                else:
                    self.counters.duplicates += 1

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
        elif not session.kv_in.accept(envelope.seq):
            self.counters.duplicates += 1
            self._owe_ack(session, now_ns)
        else:
            self._take_pages(session, body, frames[2], now_ns)

    def _take_pages(self, session: Session, header: KvPages, data: Part, now_ns: int) -> None:
        intact = (
            len(data) == header.num_pages * self._identity.page_bytes
            and xxhash.xxh3_64_intdigest(data) == header.checksum
        )
        self._deliver(KvArrived(peer=session.peer, header=header, data=data, intact=intact))
        self._owe_ack(session, now_ns)  # the ack frees staging space over there

    def _owe_ack(self, session: Session, now_ns: int) -> None:
        """At the next tick, or now if many frames came in one go: a beat a frame costs a tenth of it."""
        session.num_unacked += 1
        if session.num_unacked >= MAX_UNACKED:
            self.beat(session, now_ns)

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
            log.warning("session %d with prefill %s is lost", session.number, session.peer)
            prefill.state = _State.RESOLVING
            prefill.next_try_ns = 0
            prefill.session = None
            self._close_control(prefill)

    def _close_control(self, prefill: _Prefill) -> None:
        if prefill.control is not None:
            prefill.control.close()
            prefill.control = None

    def close(self) -> None:
        for prefill in self._prefills.values():
            self._close_control(prefill)
        self._kv.close()
