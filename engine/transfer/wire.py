"""Frames on the control and kv links: one msgpack envelope, and on kv the raw pages behind it.

msgspec only: reading a frame must never run code (that was a hole in several engines' zmq links).
"""

from __future__ import annotations

import msgspec

from engine.core.peer import KvPages, PeerMessage
from engine.transfer.errors import FrameError

VERSION = 2
MAX_CONTROL_BYTES = 1 << 20
MAX_KV_BYTES = 64 << 20


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """decode opens a session; it numbers them upwards. ``kv_address``: where it listens for pages."""

    kv_address: str
    fingerprint: str
    page_bytes: int


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """prefill has the session."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """prefill cannot pair with this decode, ever; the message says why."""

    message: str


class Reset(msgspec.Struct, frozen=True, kw_only=True, tag="reset"):
    """The session of this frame is over on the sender's side."""


class Beat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """Sign of life from the I/O thread, with the loop's own pulse and cumulative acks.

    ``step_age_ns`` 0: the loop is idle. ``*_gap``: a later frame came than the one after the ack.
    ``kv_taken``: the loop has taken pages up to here; ``kv_credit``: bytes that may be on their way or wait
    for it, 0 from prefill, which takes none.
    """

    step: int
    step_age_ns: int
    longest_step_ns: int
    control_ack: int
    control_gap: bool
    kv_ack: int
    kv_gap: bool
    kv_taken: int
    kv_credit: int


Body = Hello | Welcome | Refused | Reset | Beat | KvPages | PeerMessage


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """``incarnation``: the sender's. ``to``: the receiver's, empty while unknown. ``seq`` 0: unsequenced."""

    v: int
    src: str
    incarnation: str
    to: str
    session: int
    seq: int
    body: Body


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Envelope)


def encode(envelope: Envelope) -> bytes:
    return _ENCODER.encode(envelope)


def decode(frame: bytes | memoryview) -> Envelope:
    """Read an envelope. Raises FrameError on anything else."""
    try:
        envelope = _DECODER.decode(frame)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FrameError(f"malformed frame of {len(frame)} bytes: {error}") from error
    if envelope.v != VERSION:
        raise FrameError(f"frame of version {envelope.v}, this worker speaks {VERSION}")
    return envelope
