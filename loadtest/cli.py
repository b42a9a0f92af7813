"""Send long prompts to a deployment, abort some on purpose, and write down what became of each."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest.abort_plan import AbortChoice, AbortMix, read_choices
from loadtest.abort_urls import AbortUrls, parse_abort_urls
from loadtest.arrivals import Arrivals
from loadtest.config import LoadConfig, Mode
from loadtest.endpoint import parse_endpoint
from loadtest.errors import LoadError, UsageError
from loadtest.goodput import parse_goodput
from loadtest.history import AbortKind
from loadtest.lengths import Lengths
from loadtest.options import add_options
from loadtest.schedule import Shapes
from loadtest.workload import WorkloadFile

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_OWN_ERROR = 1
EXIT_USAGE = 2
_PHASES = {Mode.OPEN: "load", Mode.CAPACITY: "warmup", Mode.REPLAY: "control"}
_SHARE_OF_A_MIX = 0.4


def add_commands(commands: Subparsers) -> None:
    """Mount ``load`` under the top command."""
    summary = "send long prompts, abort some on purpose, write the history of every request"
    parser = commands.add_parser("load", help=summary, description=__doc__)
    add_options(parser)
    parser.set_defaults(run=load)


def load(args: argparse.Namespace) -> int:
    """Run one load; returns the exit code."""
    try:
        config = config_of(args)
        from loadtest.run import run_load

        return run_load(config)
    except UsageError as error:
        print(f"severance load: {error}", file=sys.stderr)
        return EXIT_USAGE
    except LoadError as error:
        print(f"severance load: {error}", file=sys.stderr)
        return EXIT_OWN_ERROR


def config_of(args: argparse.Namespace) -> LoadConfig:
    """Check every option. Raises `UsageError`, which names the flag."""
    mode: Mode = args.mode
    _check_numbers(args)
    url = parse_endpoint("--url", args.url, args.api_key)
    shapes = _shapes(args)
    abort_urls = parse_abort_urls(args.abort_url, url, args.api_key)
    _check_halves(shapes.aborts, abort_urls)
    return LoadConfig(
        mode=mode,
        url=url,
        abort_urls=abort_urls,
        out=_out(args.out),
        run_id=args.run_id or secrets.token_hex(6),
        seed=args.seed,
        phase=args.phase or _PHASES[mode],
        duration_s=args.duration,
        arrivals=Arrivals(
            pattern=args.arrival_pattern, rate=args.request_rate, burstiness=args.burstiness
        ),
        shapes=shapes,
        concurrency=args.concurrency,
        request_timeout_s=args.request_timeout,
        max_send_lag_ms=args.max_send_lag_ms,
        goodput=parse_goodput(args.goodput),
        num_prompts=args.num_prompts,
        workload=_workload(args),
        requests=_requests(args),
        otlp_traces_endpoint=_traces_endpoint(args.otlp_traces_endpoint),
    )


def _check_numbers(args: argparse.Namespace) -> None:
    positive: dict[str, float | None] = {
        "--request-rate": args.request_rate,
        "--duration": args.duration,
        "--num-prompts": args.num_prompts,
        "--burstiness": args.burstiness,
        "--concurrency": args.concurrency,
        "--isl-min": args.isl_min,
        "--osl-min": args.osl_min,
        "--request-timeout": args.request_timeout,
        "--max-send-lag-ms": args.max_send_lag_ms,
    }
    for flag, value in positive.items():
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(flag, f"{value:g} is not usable; give a finite number above 0")


def _shapes(args: argparse.Namespace) -> Shapes:
    isl = _lengths("--isl", args.isl_min, args.isl_max, args.isl_mean)
    osl = _lengths("--osl", args.osl_min, args.osl_max, None)
    is_open = args.mode is Mode.OPEN
    return Shapes(isl=isl, osl=osl, aborts=_aborts(args) if is_open else AbortMix())


def _lengths(flag: str, low: int, high: int, mean: float | None) -> Lengths:
    if low > high:
        raise UsageError(f"{flag}-min", f"{low} is above {flag}-max {high}; lower it or raise that")
    if mean is not None and not low <= mean <= high:
        raise UsageError(
            f"{flag}-mean",
            f"{mean:g} is outside {flag}-min {low} to {flag}-max {high}; choose a mean between them",
        )
    return Lengths(low=low, high=high, mean=mean)


def _aborts(args: argparse.Namespace) -> AbortMix:
    percent: float | None = args.request_cancellation_rate
    if percent is not None:
        if args.abort_mix is not None or args.abort_share is not None:
            raise UsageError(
                "--request-cancellation-rate", "excludes --abort-mix and --abort-share; use one way"
            )
        delay_ms = args.request_cancellation_delay * 1e3
        if not delay_ms >= 0:
            raise UsageError("--request-cancellation-delay", "must be 0 or more seconds")
        share = _share("--request-cancellation-rate", percent, 100)
        choice = AbortChoice(kind=AbortKind.DISCONNECT, after_ms=(delay_ms, delay_ms))
        return AbortMix(share=share, choices=(choice,))
    default = 0.0 if args.abort_mix is None else _SHARE_OF_A_MIX
    share = _share("--abort-share", default if args.abort_share is None else args.abort_share, 1)
    if args.abort_mix is None:
        return AbortMix(share=share)
    return AbortMix(share=share, choices=read_choices(args.abort_mix))


def _check_halves(aborts: AbortMix, urls: AbortUrls) -> None:
    for choice in aborts.choices:
        if not urls.at(choice.at):
            raise UsageError(
                "--abort-mix",
                f"at {choice.at}: give --abort-url {choice.at}=URL for each such worker",
            )


def _share(flag: str, value: float, whole: float) -> float:
    if not 0 <= value <= whole:
        raise UsageError(flag, f"{value:g} is not between 0 and {whole:g}")
    return value / whole


def _out(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise UsageError("--out", f"{path} is a file; name a directory")
    return path


def _workload(args: argparse.Namespace) -> WorkloadFile | None:
    if args.input_file is None:
        return None
    if args.mode is not Mode.OPEN:
        raise UsageError("--input-file", f"has due times, so it needs --mode open, not {args.mode}")
    if not args.input_file.is_file():
        raise UsageError("--input-file", f"{args.input_file} is no file; give a workload trace")
    return WorkloadFile(path=args.input_file, format=args.custom_dataset_type)


def _requests(args: argparse.Namespace) -> Path | None:
    if args.mode is not Mode.REPLAY:
        return None
    if args.requests is None:
        raise UsageError("--requests", "is needed with --mode replay; give a history file")
    path: Path = args.requests
    if not path.is_file():
        raise UsageError("--requests", f"{path} is no file; give a history file")
    return path


def _traces_endpoint(url: str | None) -> str | None:
    if url is not None:
        parse_endpoint("--otlp-traces-endpoint", url)
    return url
