"""A small `severance` command for tests of the runner: same flags and files, no model.

Workers speak HTTP and hold real connections over the three links; the load driver sends real requests
through the real router. It says nothing about the engine, only about the runner around it.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import signal
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import zmq

from chaos.records import ResourceCount, WorkerLedger
from loadtest.history import End, Outcome, Sent

PAGES = 64


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    for flag in (
        *(
            "--worker-name",
            "--disaggregation-mode",
            "--host",
            "--url",
            "--out",
            "--run-id",
            "--mode",
        ),
        *("--requests", "--db", "--phase", "--otlp-traces-endpoint"),
    ):
        parser.add_argument(flag)
    for flag in (
        "--port",
        "--seed",
        *(f"--disaggregation-{k}-port" for k in ("bootstrap", "control", "kv")),
    ):
        parser.add_argument(flag, type=int)
    for flag in ("--request-rate", "--duration"):
        parser.add_argument(flag, type=float)
    parser.add_argument("--link-map", action="append", default=[])
    return parser.parse_known_args(argv)[0]


class Handler(BaseHTTPRequestHandler):
    """Answers of a worker and of a span store alike."""

    protocol_version = "HTTP/1.1"
    args: argparse.Namespace

    def do_GET(self) -> None:
        if self.path == "/ledger":
            self.reply(msgspec.to_builtins(ledger_of(self.args)))
        elif self.path.startswith(
            ("/server_info", "/get_server_info", "/model_info", "/get_model_info")
        ):
            self.reply({"model_path": "tiny", "tokenizer_path": "tiny", "is_generation": True})
        else:
            self.reply({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path != "/generate":
            self.reply({})
            return
        new = json.loads(body)["sampling_params"]["max_new_tokens"]
        time.sleep(0.02)
        info = {"id": "x", "completion_tokens": new, "finish_reason": {"type": "length"}}
        self.reply({"text": "a" * new, "output_ids": [97] * new, "meta_info": info})

    def reply(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


def ledger_of(args: argparse.Namespace) -> WorkerLedger:
    return WorkerLedger(
        worker=args.worker_name,
        role=args.disaggregation_mode,
        incarnation=str(os.getpid()),
        step=1,
        idle=True,
        resources={"kv_pages": ResourceCount(total=PAGES, free=PAGES, held=0)},
        holders=(),
        rooms_open=0,
        rooms_terminal=0,
        requests=0,
        rid_to_state=0,
        queues={"waiting": 0},
        conservation=(),
    )


def serve_http(args: argparse.Namespace) -> None:
    Handler.args = args
    server = ThreadingHTTPServer((args.host, args.port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever()


def serve(args: argparse.Namespace) -> None:
    if os.environ.get("STANDIN_DIES") == args.worker_name:
        sys.exit("no such model directory")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    sockets = []
    for port in (args.disaggregation_control_port, args.disaggregation_kv_port):
        if port:
            sockets.append(context.socket(zmq.ROUTER))
            sockets[-1].bind(f"tcp://{args.host}:{port}")
    if args.disaggregation_bootstrap_port:
        bootstrap = ThreadingHTTPServer((args.host, args.disaggregation_bootstrap_port), Handler)
        threading.Thread(target=bootstrap.serve_forever, daemon=True).start()
    for entry in args.link_map:
        kind, _, addresses = entry.partition(":")
        if kind != "bootstrap":
            sockets.append(context.socket(zmq.DEALER))
            sockets[-1].connect(f"tcp://{addresses.partition('=')[2]}")
            sockets[-1].send(b"hello")
    serve_http(args)


def load(args: argparse.Namespace) -> None:
    out = Path(args.out)
    if args.mode == "capacity":
        time.sleep(args.duration)
        facts = {
            "tokens_per_s": 400.0,
            "req_per_s": 20.0,
            "requests": 20,
            "duration_s": args.duration,
        }
        (out / "capacity.json").write_text(json.dumps(facts))
        return
    if args.mode == "replay":
        (out / "control.jsonl").write_bytes(Path(args.requests).read_bytes())
        return
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    hang_after = float(os.environ.get("STANDIN_HANGS_AFTER", "1e9"))
    begun, number = time.monotonic(), 0
    threads = []
    with (out / "history.jsonl").open("ab", buffering=0) as file:
        while time.monotonic() < begun + args.duration and not stopping.wait(1 / args.request_rate):
            hangs = time.monotonic() - begun > hang_after
            thread = threading.Thread(target=request, args=(args, number, file, hangs), daemon=True)
            thread.start()
            threads.append(thread)
            number += 1
        for thread in threads:
            thread.join(0 if stopping.is_set() else 10)


def request(args: argparse.Namespace, number: int, file: object, hangs: bool) -> None:
    rid, now = uuid.uuid4().hex, time.monotonic_ns()
    sent = Sent(
        rid=rid, trace_id=uuid.uuid4().hex, scheduled_ns=now, sent_ns=now, isl=600, abort_plan=None,
        index=number, prompt_seed=args.seed, max_new_tokens=16, phase="load", host="h",
        run_id=args.run_id, wall_ns=time.time_ns(),
    )  # fmt: skip
    file.write(msgspec.json.encode(sent) + b"\n")  # type: ignore[attr-defined]
    if hangs:
        return
    status, text = 0, b""
    try:
        connection = http.client.HTTPConnection(urlsplit(args.url).netloc, timeout=5)
        params = {"max_new_tokens": 16, "temperature": 0}
        body = json.dumps({"text": "x" * 600, "rid": rid, "sampling_params": params})
        connection.request("POST", "/generate", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        status, text = answer.status, answer.read()
    except OSError:
        pass
    now = time.monotonic_ns()
    outcome = (
        Outcome.COMPLETED if status == 200 else Outcome.HTTP_ERROR if status else Outcome.CONN_ERROR
    )
    end = End(
        rid=rid, headers_ns=now, first_ns=now, last_ns=now, end_ns=now, osl=16, outcome=outcome,
        status=status or None, finish_reason="length", text_sha256=hashlib.sha256(text).hexdigest(),
        abort=None, completion_tokens=16, num_answers=1, output_ids=(97,) * 16,
    )  # fmt: skip
    file.write(msgspec.json.encode(end) + b"\n")  # type: ignore[attr-defined]


def main() -> None:
    args = parse(sys.argv[1:])
    {"serve": serve, "load": load, "spanstore": serve_http}[args.command](args)


if __name__ == "__main__":
    main()
