"""A small worker that speaks the /generate contract on a real socket, well or badly, as it is told.

``python stub_server.py [--mode MODE[,MODE...]] [--ttft-ms N] [--itl-ms N]`` prints its port and serves until
its stdin closes. Several modes take turns. ``GET /events`` shows what it saw, with monotonic times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ABORT_BODY = {
    "error": {
        "message": "the peer is dead",
        "type": "abort",
        "code": 503,
        "reason": "peer_dead",
        "stage": "transfer",
        "origin": "server",
    }
}


@dataclass
class Call:
    """One open /generate."""

    rid: str
    num_tokens: int
    writer: asyncio.StreamWriter
    chunked: bool = True
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    async def head(self, status: str = "200 OK", kind: str = "text/event-stream") -> None:
        framing = "Transfer-Encoding: chunked\r\n" if self.chunked else ""
        lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{framing}\r\n"
        self.writer.write(lines.encode())
        await self.writer.drain()

    async def send(self, data: str) -> None:
        body = f"data: {data}\n\n".encode()
        self.writer.write(b"%x\r\n%s\r\n" % (len(body), body) if self.chunked else body)
        await self.writer.drain()

    async def finish(self) -> None:
        if self.chunked:
            self.writer.write(b"0\r\n\r\n")
            await self.writer.drain()

    def frame(self, count: int, finish: dict[str, object] | None = None) -> str:
        ids = [65 + index % 26 for index in range(count)]
        meta = {
            "id": self.rid,
            "finish_reason": finish,
            "prompt_tokens": 10,
            "completion_tokens": count,
            "output_token_logprobs": [[-0.1, token, None] for token in ids],
            "output_top_logprobs": [[[-0.125, t, None], [-1.625, t + 1, None]] for t in ids],
        }
        text = "".join(map(chr, ids))
        return json.dumps({"text": text, "output_ids": ids, "meta_info": meta})


class Stub:
    def __init__(self, modes: list[str], ttft_s: float, itl_s: float, watch: Path | None) -> None:
        self.watch = watch
        self.modes = modes
        self.ttft_s = ttft_s
        self.itl_s = itl_s
        self.events: list[dict[str, object]] = []
        self.calls: dict[str, Call] = {}
        self.num_calls = 0

    def note(self, event: str, **facts: object) -> None:
        self.events.append({"event": event, "at_ns": time.monotonic_ns(), **facts})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        at_ns = time.monotonic_ns()
        watched = self.watch.read_bytes() if self.watch and self.watch.exists() else b""
        method, path, _ = head.split("\r\n")[0].split(" ")
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if path == "/generate":
            return await self.generate(json.loads(body), headers, at_ns, watched, reader, writer)
        if path == "/abort_request":
            await self.reply(writer, self.abort(json.loads(body)))
        elif path == "/events":
            await self.reply(writer, self.events)
        else:
            await self.reply(writer, {"status": "ok", "model_path": "stub", "method": method})
        return True

    async def reply(
        self, writer: asyncio.StreamWriter, value: object, status: str = "200 OK"
    ) -> None:
        body = json.dumps(value).encode()
        kind = "Content-Type: application/json\r\n"
        writer.write(
            f"HTTP/1.1 {status}\r\n{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
        await writer.drain()

    def abort(self, body: dict[str, str]) -> dict[str, int]:
        call = self.calls.get(body["rid"])
        self.note("abort", rid=body["rid"], matched=int(call is not None))
        if call:
            call.aborted.set()
        return {"matched": int(call is not None)}

    async def generate(
        self,
        body: dict[str, object],
        headers: dict[str, str],
        at_ns: int,
        watched: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        mode = self.modes[self.num_calls % len(self.modes)]
        self.num_calls += 1
        sampling = body["sampling_params"]
        assert isinstance(sampling, dict)
        call = Call(str(body["rid"]), int(sampling["max_new_tokens"]), writer)
        self.calls[call.rid] = call
        traceparent = headers.get("traceparent")
        self.note(
            "generate",
            rid=call.rid,
            head_ns=at_ns,
            body=body,
            traceparent=traceparent,
            on_record=call.rid.encode() in watched,
        )
        answer = asyncio.create_task(self.answer(call, mode))
        gone = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self.note("disconnect", rid=call.rid)
                answer.cancel()
                return False
            answer.result()
            return False
        finally:
            gone.cancel()
            self.calls.pop(call.rid)

    async def answer(self, call: Call, mode: str) -> None:
        wait_s = 3600 if mode == "hang" else self.ttft_s
        if mode in ("close_early", "http_abort", "http_foreign", "json_abort"):
            await self.answer_without_stream(call, mode)
            return
        call.chunked = mode != "eof_body"
        await call.head()
        await self.pause(call, wait_s)
        stop_at = call.num_tokens if mode in _WHOLE else call.num_tokens // 2
        for count in range(1, stop_at + 1):
            if call.aborted.is_set() and mode != "ignore_abort":
                await call.send(call.frame(count - 1, {"type": "abort", "message": "asked for"}))
                await call.send("[DONE]")
                await call.finish()
                return
            final = count == call.num_tokens and mode not in ("no_finish",)
            reason = {"type": "length", "length": count} if final else None
            await call.send(call.frame(count, reason))
            if not final:
                await self.pause(call, self.itl_s, mode != "ignore_abort")
        await self.end(call, mode)

    async def pause(self, call: Call, wait_s: float, heeds: bool = True) -> None:
        if not heeds:
            await asyncio.sleep(wait_s)
            return
        try:
            await asyncio.wait_for(call.aborted.wait(), wait_s)
        except TimeoutError:
            return

    async def answer_without_stream(self, call: Call, mode: str) -> None:
        if mode == "http_abort":
            await self.reply(call.writer, ABORT_BODY, "503 Service Unavailable")
        elif mode == "http_foreign":
            await self.reply(call.writer, {"error": "no worker left"}, "502 Bad Gateway")
        elif mode == "json_abort":
            await self.pause(call, 3600)
            await self.reply(call.writer, json.loads(call.frame(0, {"type": "abort"})))

    async def end(self, call: Call, mode: str) -> None:
        if mode in ("cut", "eof_body"):
            return
        if mode == "reset":
            sock = call.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            call.writer.transport.abort()
            return
        if mode == "sse_error":
            await call.send(json.dumps(ABORT_BODY))
        if mode == "two_answers":
            await call.send(call.frame(call.num_tokens, {"type": "length"}))
        if mode == "late_token":
            await call.send(call.frame(call.num_tokens + 1))
        if mode not in ("no_done", "truncated"):
            await call.send("[DONE]")
        await call.finish()


_WHOLE = ("normal", "no_done", "no_finish", "ignore_abort", "two_answers", "late_token")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="normal")
    parser.add_argument("--ttft-ms", type=float, default=5)
    parser.add_argument("--itl-ms", type=float, default=2)
    parser.add_argument(
        "--watch", type=Path, help="history file to look at when a request comes in"
    )
    args = parser.parse_args()
    stub = Stub(args.mode.split(","), args.ttft_ms / 1e3, args.itl_ms / 1e3, args.watch)
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # open calls are cut, not waited for


if __name__ == "__main__":
    asyncio.run(main())
