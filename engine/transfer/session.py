"""`Session`: one numbered conversation with one peer, under both links."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.codes import AbortReason
from engine.core.peer import KvSettled, PeerLost
from engine.transfer.arrivals import Arrivals
from engine.transfer.phi import Phi
from engine.transfer.pulse import wedged_for_ns
from engine.transfer.windows import ReceiveWindow, SendWindow
from engine.transfer.wire import VERSION, Beat, Body, Envelope, encode

MS_NS = 1_000_000
CONTROL_CREDIT_BYTES = 4 << 20
FIRST_KV_CREDIT_BYTES = 4 << 20
"""Until the first beat says how much the other side takes."""
GAP_PERIOD_NS = 50 * MS_NS


@dataclass(slots=True, frozen=True, kw_only=True)
class Identity:
    """Who this worker is on every wire."""

    worker_name: str
    incarnation: str
    fingerprint: str
    page_bytes: int
    dead_after_ns: int


@dataclass(slots=True, kw_only=True)
class Session:
    """``peer`` is the core's name for it, ``to`` its incarnation (empty until WELCOME).

    ``num_unacked``: kv frames taken since the last beat; the next beat acknowledges them.
    """

    identity: Identity
    peer: str
    number: int
    to: str
    heard_ns: int
    control_out: SendWindow = field(
        default_factory=lambda: SendWindow(CONTROL_CREDIT_BYTES, 300 * MS_NS)
    )
    control_in: ReceiveWindow = field(default_factory=ReceiveWindow)
    kv_out: SendWindow = field(
        default_factory=lambda: SendWindow(FIRST_KV_CREDIT_BYTES, 1500 * MS_NS, False)
    )
    kv_in: ReceiveWindow = field(default_factory=ReceiveWindow)
    arrivals: Arrivals = field(default_factory=Arrivals)
    phi: Phi = field(init=False)
    num_unacked: int = 0
    rewound_ns: int = 0
    wedged_for_ns: int = 0

    def __post_init__(self) -> None:
        self.phi = Phi(self.heard_ns)

    def envelope(self, body: Body, seq: int = 0) -> bytes:
        return encode(
            Envelope(
                v=VERSION,
                src=self.identity.worker_name,
                incarnation=self.identity.incarnation,
                to=self.to,
                session=self.number,
                seq=seq,
                body=body,
            )
        )

    def push_control(self, body: Body) -> None:
        self.control_out.push((self.envelope(body, self.control_out.next_seq),))

    def push_kv(self, body: Body, data: bytes, settled: KvSettled) -> None:
        self.kv_out.push((self.envelope(body, self.kv_out.next_seq), data), settled)

    def beat(self, step: int, step_age_ns: int, longest_step_ns: int, kv_credit: int) -> bytes:
        return self.envelope(
            Beat(
                step=step,
                step_age_ns=step_age_ns,
                longest_step_ns=longest_step_ns,
                control_ack=self.control_in.ack,
                control_gap=self.control_in.has_gap,
                kv_ack=self.kv_in.ack,
                kv_gap=self.kv_in.has_gap,
                kv_taken=self.arrivals.taken_seq,
                kv_credit=kv_credit,
            )
        )

    def on_beat(self, beat: Beat, now_ns: int) -> list[KvSettled]:
        """Take acks in, rewind on a gap; returns staged frames that are settled now."""
        self.phi.heard(now_ns)
        self.control_out.acknowledge(beat.control_ack, now_ns)
        self.kv_out.take(beat.kv_taken)
        if beat.kv_credit:
            self.kv_out.credit_bytes = beat.kv_credit
        done = self.kv_out.acknowledge(beat.kv_ack, now_ns)
        if (beat.control_gap or beat.kv_gap) and now_ns - self.rewound_ns > GAP_PERIOD_NS:
            self.rewound_ns = now_ns
            for window, has_gap in (
                (self.control_out, beat.control_gap),
                (self.kv_out, beat.kv_gap),
            ):
                if has_gap:
                    window.rewind(now_ns)
        self.wedged_for_ns = wedged_for_ns(beat.step_age_ns, beat.longest_step_ns)
        return [frame.settled for frame in done if frame.settled is not None]

    def reconnected(self, window: SendWindow, now_ns: int) -> None:
        """A new connection under ``window``: what was on the old one may be lost, so send it again now."""
        window.rewind(now_ns)

    def rewind_overdue(self, now_ns: int) -> None:
        """Send again what nobody has acknowledged for too long."""
        for window in (self.control_out, self.kv_out):
            if window.is_overdue(now_ns):
                window.rewind(now_ns)
                window.back_off()

    def verdict(self, now_ns: int) -> PeerLost | None:
        """Dead: no sign of life, or a loop that stands still. A long forward is neither."""
        silent_ns = now_ns - self.heard_ns
        if silent_ns > self.identity.dead_after_ns:
            return self.lost(f"no beat from {self.peer} for {silent_ns / 1e9:.2f} s")
        if self.wedged_for_ns:
            return self.lost(
                f"the loop of {self.peer} stands still, {self.wedged_for_ns / 1e9:.1f} s"
            )
        return None

    def lost(self, message: str) -> PeerLost:
        return PeerLost(peer=self.peer, reason=AbortReason.PEER_DEAD, message=message)

    def abandon(self) -> list[KvSettled]:
        """Give up everything in flight; returns the staging space that is free by it."""
        self.control_out.abandon()
        left = self.kv_out.abandon()
        return [
            KvSettled(
                peer=self.peer,
                room=frame.settled.room,
                owner=frame.settled.owner,
                staging_ids=frame.settled.staging_ids,
                acknowledged=False,
            )
            for frame in left
            if frame.settled is not None
        ]
