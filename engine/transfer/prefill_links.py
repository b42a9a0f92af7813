"""`PrefillLinks`: prefill listens for control and dials each decode's kv address.

A decode opens numbered sessions; a newer number or a new incarnation replaces the old session, and what a
retired incarnation left in a proxy or a socket is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import zmq

from engine.core.errors import InvariantError
from engine.core.peer import Connect, Inbound, KvPages, KvSettled, PeerUp, SendKv
from engine.transfer.links import Handler, Links, Part, bind, open_control, open_kv, try_send
from engine.transfer.monitor import close_watched, is_connected_event, watch
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap
from engine.transfer.session import Identity, Session
from engine.transfer.wire import Beat, Envelope, Hello, Refused, Reset, Welcome

log = logging.getLogger(__name__)
MAX_RETIRED = 1024


@dataclass(slots=True)
class _Decode:
    """One decode: its session, its kv socket, and the route back on the control socket."""

    session: Session
    kv: zmq.Socket[bytes]
    kv_monitor: zmq.Socket[bytes]
    routing_id: bytes
    was_connected: bool = False


class PrefillLinks(Links):
    """Control ROUTER (bound) and one kv DEALER for each decode."""

    peers_are = "decode"

    def __init__(
        self,
        identity: Identity,
        address: str,
        dial: AddressMap,
        deliver: Callable[[Inbound], None],
        pulse: LoopPulse,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        super().__init__(deliver, pulse, context)
        self._identity = identity
        self._dial = dial
        self._decodes: dict[str, _Decode] = {}
        self._retired: dict[str, None] = {}
        self._control = open_control(self._context, zmq.ROUTER)
        self._control.setsockopt(zmq.ROUTER_MANDATORY, 1)
        bind(self._control, address)

    @property
    def control_endpoint(self) -> str:
        return str(self._control.get_string(zmq.LAST_ENDPOINT))

    def sockets(self) -> dict[zmq.Socket[bytes], Handler]:
        found: dict[zmq.Socket[bytes], Handler] = {self._control: self._on_control}
        for decode in self._decodes.values():
            found[decode.kv_monitor] = partial(self._on_kv_event, decode)
        return found

    def sessions(self) -> list[Session]:
        return [decode.session for decode in self._decodes.values()]

    def session_of(self, peer: str) -> Session | None:
        decode = self._decodes.get(peer)
        return decode.session if decode else None

    def connect(self, command: Connect) -> None:
        raise InvariantError("decode dials prefill, not the reverse")

    def send_kv(self, command: SendKv, data: bytes, checksum: int) -> None:
        """Queue pages for a decode. If it is gone, its staging space is free at once."""
        settled = KvSettled(
            peer=command.peer,
            room=command.header.room,
            owner=command.owner,
            staging_ids=command.staging_ids,
            acknowledged=True,
        )
        session = self.session_of(command.peer)
        if session is None:
            self._deliver(msgspec.structs.replace(settled, acknowledged=False))
            return
        header = command.header
        body = KvPages(
            room=header.room,
            attempt=header.attempt,
            first_page=header.first_page,
            num_pages=header.num_pages,
            is_last=header.is_last,
            checksum=checksum,
            first_token=header.first_token,
        )
        session.push_kv(body, data, settled)

    # ---- control ---------------------------------------------------------------------------------

    def _on_control(self, frames: Sequence[Part], now_ns: int) -> None:
        envelope = self.read(frames[1:])
        if envelope is None:
            return
        routing_id = bytes(frames[0])
        if isinstance(envelope.body, Hello):
            self._on_hello(envelope, envelope.body, routing_id, now_ns)
            return
        decode = self._decodes.get(envelope.src)
        if decode is None or not _is_current(envelope, decode.session):
            self._on_stale(envelope, routing_id)
            return
        if decode.routing_id != routing_id:
            decode.routing_id = routing_id
            self._on_reconnect(decode.session, decode.session.control_out, now_ns)
        self._on_body(decode.session, envelope, now_ns)

    def _on_kv_event(self, decode: _Decode, frames: Sequence[Part], now_ns: int) -> None:
        if not is_connected_event(frames):
            return
        if decode.was_connected:
            self._on_reconnect(decode.session, decode.session.kv_out, now_ns)
        decode.was_connected = True

    def _on_stale(self, envelope: Envelope, routing_id: bytes) -> None:
        """A living decode that talks in a dead session must learn of it."""
        self.counters.stale += 1
        if isinstance(envelope.body, Beat) and envelope.incarnation not in self._retired:
            self._answer(envelope, routing_id, Reset())

    def _on_hello(self, envelope: Envelope, hello: Hello, routing_id: bytes, now_ns: int) -> None:
        if envelope.incarnation in self._retired:
            self.counters.stale += 1
            return
        if self._pulse.stands_still(now_ns):
            return  # decode asks again
        problem = self._whats_wrong(hello)
        if problem is not None:
            log.error("decode %s refused: %s", envelope.src, problem)
            self._answer(envelope, routing_id, Refused(message=problem))
            return
        decode = self._decodes.get(envelope.src)
        if decode is not None and envelope.incarnation == decode.session.to:
            if envelope.session < decode.session.number:
                self.counters.stale += 1
                return
            if envelope.session == decode.session.number:
                decode.routing_id = routing_id
                self._answer(envelope, routing_id, Welcome())
                return
        if decode is not None:
            self._retire(decode.session, envelope)
        self._open(envelope, hello, routing_id, now_ns)

    def _whats_wrong(self, hello: Hello) -> str | None:
        mine = self._identity
        if (hello.fingerprint, hello.page_bytes) == (mine.fingerprint, mine.page_bytes):
            return None
        return (
            "the two halves run different models: start both with the same --model-path, --dtype, "
            f"--random-seed and --page-size (prefill {mine.fingerprint}, decode {hello.fingerprint})"
        )

    def _retire(self, session: Session, successor: Envelope) -> None:
        if successor.incarnation != session.to:
            self._retired[session.to] = None
            while len(self._retired) > MAX_RETIRED:
                del self._retired[next(iter(self._retired))]
        self.lose(session, f"decode {session.peer} opened a new session")

    def _open(self, envelope: Envelope, hello: Hello, routing_id: bytes, now_ns: int) -> None:
        kv = open_kv(self._context, zmq.DEALER)
        kv_monitor = watch(kv)
        kv.connect(f"tcp://{self._dial.dial('kv', hello.kv_address)}")
        session = Session(
            identity=self._identity,
            peer=envelope.src,
            number=envelope.session,
            to=envelope.incarnation,
            heard_ns=now_ns,
        )
        self._decodes[envelope.src] = _Decode(session, kv, kv_monitor, routing_id)
        self._opened(session)
        self._answer(envelope, routing_id, Welcome())
        self._deliver(PeerUp(peer=session.peer, incarnation=session.to))

    def _answer(
        self, envelope: Envelope, routing_id: bytes, body: Welcome | Refused | Reset
    ) -> None:
        """Answer in the session of the question, which need not be one of ours."""
        stand_in = Session(
            identity=self._identity,
            peer=envelope.src,
            number=envelope.session,
            to=envelope.incarnation,
            heard_ns=0,
        )
        try_send(self._control, (routing_id, stand_in.envelope(body)))

    # ---- sending -----------------------------------------------------------------------------------

    def _send_control(self, session: Session, parts: tuple[bytes, ...]) -> bool:
        decode = self._decodes.get(session.peer)
        return decode is not None and try_send(self._control, (decode.routing_id, *parts))

    def _send_kv(self, session: Session, parts: tuple[bytes, ...]) -> bool:
        decode = self._decodes.get(session.peer)
        return decode is not None and try_send(decode.kv, parts)

    def _drop(self, session: Session) -> None:
        decode = self._decodes.pop(session.peer, None)
        if decode is not None:
            close_watched(decode.kv, decode.kv_monitor)

    def _advance(self, now_ns: int) -> None:
        """Prefill waits to be spoken to."""

    def close(self) -> None:
        for decode in self._decodes.values():
            close_watched(decode.kv, decode.kv_monitor)
        self._control.close()


def _is_current(envelope: Envelope, session: Session) -> bool:
    return (
        envelope.session == session.number
        and envelope.incarnation == session.to
        and envelope.to in ("", session.identity.incarnation)
    )
