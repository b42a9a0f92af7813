"""Options of ``severance load``, named as in vLLM, SGLang and aiperf where those have them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from loadtest.arrivals import ArrivalPattern
from loadtest.config import Mode
from loadtest.workload import TraceFormat

EXIT_CODES = (
    "exit codes: 0 done, 1 an error of the driver itself, 2 wrong usage, 4 requests left too late (all files "
    "are written, the latencies are not valid), 130 interrupted (the history is complete)"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXIT_CODES
    _add_target(parser.add_argument_group("target and files"))
    _add_arrivals(parser.add_argument_group("when requests are sent"))
    _add_shapes(parser.add_argument_group("what is sent"))
    _add_aborts(parser.add_argument_group("aborts on purpose"))
    _add_measuring(parser.add_argument_group("measuring"))


def _add_target(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--url", "--host", required=True, metavar="URL", help="router or worker, http://HOST:PORT"
    )
    group.add_argument(
        "--api-key",
        default=os.environ.get("SEVERANCE_API_KEY") or None,
        metavar="KEY",
        help="key of the server, sent as Authorization: Bearer KEY; better set $SEVERANCE_API_KEY, which "
        "`ps` does not show (none)",
    )
    group.add_argument(
        "--abort-url",
        action="append",
        default=[],
        metavar="[ROLE=]URL",
        help="a worker that takes /abort_request (repeat: prefill and decode); ROLE, prefill or decode, is "
        "what an abort mix calls it; default: --url",
    )
    group.add_argument(
        "--mode",
        type=Mode,
        choices=tuple(Mode),
        default=Mode.OPEN,
        help="open: by the clock, writes history.jsonl and load.json; capacity: closed loop, writes "
        "warmup.jsonl and capacity.json; replay: repeats --requests, writes control.jsonl",
    )
    group.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    group.add_argument("--run-id", metavar="ID", help="name of the run in every record (drawn)")
    group.add_argument(
        "--phase",
        metavar="NAME",
        help="name of this load in every record (by mode: load, warmup, control)",
    )
    group.add_argument(
        "--requests",
        type=Path,
        metavar="FILE",
        help="replay: history file whose `sent` records to repeat",
    )


def _add_arrivals(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--request-rate", type=float, default=1.0, metavar="R", help="mean requests per second (1)"
    )
    group.add_argument(
        "--duration", "--benchmark-duration", type=float, default=30.0, metavar="S",
        help="seconds in which requests are due (30); open ones are then waited for",
    )  # fmt: skip
    group.add_argument(
        "--num-prompts", "--request-count", type=int, metavar="N",
        help="stop after N requests, if --duration has not ended the load before",
    )  # fmt: skip
    group.add_argument(
        "--arrival-pattern", type=ArrivalPattern, choices=tuple(ArrivalPattern),
        default=ArrivalPattern.POISSON, help="distribution of the gaps between requests (poisson)",
    )  # fmt: skip
    group.add_argument(
        "--burstiness", "--arrival-smoothness", type=float, default=1.0, metavar="B",
        help="gamma only: 1 is poisson, less is burstier, more is smoother (1)",
    )  # fmt: skip
    group.add_argument(
        "--concurrency", "--max-concurrency", type=int, default=4, metavar="N",
        help="capacity and replay: requests open at a time (4)",
    )  # fmt: skip


def _add_shapes(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--isl-min", type=int, default=512, metavar="N", help="shortest prompt in tokens (512)"
    )
    group.add_argument(
        "--isl-max", type=int, default=2048, metavar="N", help="longest prompt in tokens (2048)"
    )
    group.add_argument(
        "--isl-mean", type=float, metavar="N", help="mean prompt length (default: uniform)"
    )
    group.add_argument(
        "--osl-min", type=int, default=16, metavar="N", help="shortest output in tokens (16)"
    )
    group.add_argument(
        "--osl-max", type=int, default=64, metavar="N", help="longest output in tokens (64)"
    )
    group.add_argument(
        "--seed", "--random-seed", type=int, default=0, metavar="N",
        help="seed of times, lengths, prompts and aborts (0); rids and trace ids are always new",
    )  # fmt: skip
    group.add_argument(
        "--input-file", type=Path, metavar="FILE",
        help="workload trace: its due times and lengths, cut at --isl-max and --osl-max",
    )  # fmt: skip
    group.add_argument(
        "--custom-dataset-type", type=TraceFormat, choices=tuple(TraceFormat),
        default=TraceFormat.MOONCAKE, help="format of --input-file (mooncake-trace)",
    )  # fmt: skip


def _add_aborts(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--abort-share",
        type=float,
        metavar="X",
        help="share of requests to abort, 0 to 1 (0; 0.4 with a mix)",
    )
    group.add_argument(
        "--abort-mix", type=Path, metavar="FILE",
        help="JSON list of {kind: disconnect|rid|deadline, weight, after_ms: [low, high] or "
        "after_tokens: [low, high]}; times count from the due time",
    )  # fmt: skip
    group.add_argument(
        "--request-cancellation-rate", type=float, metavar="PERCENT",
        help="as in aiperf: this share is disconnected after --request-cancellation-delay",
    )  # fmt: skip
    group.add_argument(
        "--request-cancellation-delay", type=float, default=0.0, metavar="S",
        help="seconds from the due time to that disconnect (0)",
    )  # fmt: skip
    group.add_argument(
        "--request-timeout", "--request-timeout-seconds", type=float, default=60.0, metavar="S",
        help="give a request up this long after it was due; it counts as hung (60)",
    )  # fmt: skip


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--goodput", nargs="+", default=[], metavar="NAME:MS",
        help="limits that a good request keeps, such as ttft:500 tpot:50 e2el:5000",
    )  # fmt: skip
    group.add_argument(
        "--max-send-lag-ms", type=float, default=250.0, metavar="MS",
        help="p99 of the delay between due and sent above which the run is not valid (250)",
    )  # fmt: skip
    group.add_argument(
        "--otlp-traces-endpoint", metavar="URL",
        help="where client spans go, http://HOST:PORT/v1/traces (default: nowhere)",
    )  # fmt: skip
