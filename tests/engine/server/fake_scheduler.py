"""A scripted scheduler: the other end of the ipc sockets, as a real process.

A prompt that is a JSON object is its script (`Script`); any other prompt gets three tokens. What it was sent
is read back through its answer to the ledger question (``GET /ledger``).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import zmq

from engine.core.codes import CLIENT_REASONS, AbortOrigin, AbortReason, AbortVia, Stage
from engine.core.io_struct import (
    AbortInfo,
    AbortReq,
    ControlReq,
    ControlResp,
    FinishReason,
    FromScheduler,
    GaugeSample,
    RefusedReq,
    SchedulerBeat,
    SchedulerReady,
    SpanStamp,
    TokenizedGenerateReqInput,
    TokenLogprob,
    TokenOut,
    ToScheduler,
    TraceRecord,
)
from engine.server.args import SchedulerArgs

VOCAB_SIZE = 259


class Script(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``hold``: never finishes by itself. ``abort``: ends so after the tokens.

    ``late_tokens``: sent after an abort was seen, before the end. ``finish_late``: an abort is answered as
    if the request had just completed. ``deaf``: aborts are noted and never answered. ``mute_s``: no beats.
    ``end_rid``: end another request, with ``end_reason``.
    """

    tokens: int = 3
    hold: bool = False
    abort: AbortReason | None = None
    late_tokens: int = 0
    finish_late: bool = False
    deaf: bool = False
    mute_s: float = 0.0
    step_age_s: float = 0.0
    die: bool = False
    end_rid: str = ""
    end_reason: AbortReason = AbortReason.PEER_DEAD
    garbage: bool = False


class Seen(msgspec.Struct):
    """What arrived."""

    aborts: list[dict[str, object]] = []
    generates: list[dict[str, object]] = []
    refusals: list[dict[str, object]] = []


class FakeScheduler:
    def __init__(self, args: SchedulerArgs) -> None:
        self.args = args
        self.seen = Seen(aborts=[], generates=[], refusals=[])
        self.open: dict[tuple[str, int | None], tuple[TokenizedGenerateReqInput, Script]] = {}
        self.next_beat = 0.0
        self.muted_until = 0.0
        self.step_age_ns = 0
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.pull = context.socket(zmq.PULL)
        self.pull.connect(args.to_scheduler)
        self.push = context.socket(zmq.PUSH)
        self.push.connect(args.from_scheduler)
        self.decoder = msgspec.msgpack.Decoder(ToScheduler)

    def send(self, message: FromScheduler) -> None:
        self.push.send(msgspec.msgpack.encode(message))

    def run(self) -> None:
        self.send(
            SchedulerReady(
                incarnation=self.args.incarnation,
                fingerprint="f00d",
                vocab_size=VOCAB_SIZE,
                eos_token_id=257,
                num_pages=self.args.max_total_tokens // self.args.page_size,
                page_size=self.args.page_size,
                context_length=self.args.context_length,
                control_endpoint="tcp://127.0.0.1:7777",
            )
        )
        while True:
            if self.pull.poll(50):
                self.on_message(self.decoder.decode(self.pull.recv()))
            self.beat()

    def beat(self) -> None:
        now = time.monotonic()
        if now < self.next_beat or now < self.muted_until:
            return
        self.next_beat = now + 0.1
        self.send(SchedulerBeat(step=1, step_age_ns=self.step_age_ns))
        self.send(GaugeSample(values={"num_running_reqs": len(self.open), "rooms_open": 5.0}))

    def on_message(self, message: ToScheduler) -> None:
        match message:
            case TokenizedGenerateReqInput():
                self.on_generate(message)
            case AbortReq():
                self.on_abort(message)
            case RefusedReq():
                self.seen.refusals.append(msgspec.to_builtins(message))
            case ControlReq():
                self.send(ControlResp(id=message.id, body=self.control(message)))

    def control(self, message: ControlReq) -> bytes:
        match message.op:
            case "ledger":
                return msgspec.json.encode({"role": self.args.mode, "seen": self.seen})
            case "request":
                rooms = [room for rid, room in self.open if rid == message.rid]
                return msgspec.json.encode(rooms) if rooms else b""
            case "flush":
                return msgspec.json.encode({"flushed": not self.open})
            case _:
                return msgspec.json.encode({"op": message.op})

    def on_generate(self, request: TokenizedGenerateReqInput) -> None:
        self.seen.generates.append(msgspec.to_builtins(request))
        text = bytes(token for token in request.input_ids if token < 256).decode()
        script = msgspec.json.decode(text, type=Script) if text.startswith("{") else Script()
        key = (request.rid, request.bootstrap_room)
        self.open[key] = (request, script)
        self.muted_until = time.monotonic() + script.mute_s
        self.step_age_ns = int(script.step_age_s * 1e9)
        if script.die:
            os.kill(os.getpid(), signal.SIGKILL)
        if script.garbage:
            self.push.send(b"\xc1 not msgpack")
            self.push.send_multipart([b"two", b"frames"])
        for other in [other for other in self.open if other[0] == script.end_rid]:
            self.end_aborted(other, script.end_reason, time.monotonic_ns())
        self.tokens(key, script.tokens)
        if script.abort is not None:
            self.end_aborted(key, script.abort, time.monotonic_ns())
        elif not script.hold:
            self.end(key, FinishReason(type="length", length=script.tokens), None)

    def on_abort(self, message: AbortReq) -> None:
        seen = msgspec.to_builtins(message)
        self.seen.aborts.append(seen | {"seen_ns": time.monotonic_ns()})
        for key in [key for key in self.open if message.abort_all or key[0] == message.rid]:
            if not message.abort_all and key[1] != message.bootstrap_room:
                continue
            script = self.open[key][1]
            if script.deaf:
                continue
            self.tokens(key, script.late_tokens)
            if script.finish_late:
                self.end(key, FinishReason(type="length", length=99), None)
            else:
                self.end_aborted(key, message.reason, message.received_ns)

    def tokens(self, key: tuple[str, int | None], count: int) -> None:
        for index in range(count):
            token = TokenLogprob(
                token_id=ord("a") + index % 26,
                logprob=-0.25,
                margin=0.5,
                top=((ord("a") + index % 26, -0.25), (ord("z"), -0.75)),
            )
            self.send(TokenOut(rid=key[0], bootstrap_room=key[1], tokens=(token,)))

    def end_aborted(
        self, key: tuple[str, int | None], reason: AbortReason, received_ns: int
    ) -> None:
        by_client = reason in CLIENT_REASONS
        info = AbortInfo(
            reason=reason,
            origin=AbortOrigin.CLIENT if by_client else AbortOrigin.SERVER,
            via=AbortVia.LOCAL if by_client else AbortVia.PEER,
            stage=Stage.MID_CHUNK,
            message=f"scripted {reason}",
            received_ns=received_ns,
            released_ns=time.monotonic_ns(),
        )
        self.end(key, FinishReason(type="abort", abort=info), info)

    def end(
        self, key: tuple[str, int | None], finish: FinishReason, abort: AbortInfo | None
    ) -> None:
        request, _ = self.open.pop(key)
        now_ns = time.monotonic_ns()
        spans = [SpanStamp(name="queue", start_ns=request.received_ns, end_ns=now_ns)]
        if abort is not None:
            spans += [
                SpanStamp(name="abort", start_ns=abort.received_ns, end_ns=now_ns),
                SpanStamp(
                    name="kv.release",
                    start_ns=now_ns,
                    end_ns=now_ns,
                    parent=1,
                    attributes={"pd.pages": 7},
                ),
            ]
        record = TraceRecord(
            spans=tuple(spans),
            abort=abort,
            num_wasted_prefill_tokens=11 if abort else 0,
            num_wasted_decode_tokens=2 if abort else 0,
        )
        self.send(
            TokenOut(
                rid=key[0],
                bootstrap_room=key[1],
                num_cached_tokens=4,
                finish=finish,
                trace=record,
            )
        )


def main(argv: list[str]) -> int:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    args = msgspec.json.decode(Path(argv[1]).read_bytes(), type=SchedulerArgs)
    if args.model_path == "broken" or args.random_seed == 666:
        print("a long story", file=sys.stderr)
        print("ModelError: seed 666 is not for loading", file=sys.stderr)
        return 3
    FakeScheduler(args).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
