"""The command `severance up`. Heavy imports happen inside it."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import UsageError

if TYPE_CHECKING:
    from chaos.scenario import Scenario

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Command = Callable[[argparse.Namespace], int]
_EXIT_CODES = (
    "exit codes: 0 it served and has ended, 2 usage, 4 it could not start, 5 something was left behind, "
    "130 interrupted before it served"
)
_DESCRIPTION = """\
Start a deployment on this machine and keep it until Ctrl-C, SIGTERM or --for: prefill and decode workers
behind the SGLang router, a toxiproxy proxy on each link of each pair, and a span store. Prints where
everything is and what to try; DIR/endpoints.json says the same to scripts, once all serve."""


def add_up(subparsers: Commands, guarded: Callable[[Command], Command]) -> None:
    """Mount ``up``. ``guarded`` turns our own errors into an exit code."""
    parser = subparsers.add_parser(
        "up",
        help="start a deployment with a proxy on every link, and keep it",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-f",
        "--file",
        type=Path,
        metavar="SCENARIO",
        help="take the deployment of this scenario file; the options below win over it",
    )
    parser.add_argument("--prefill", type=_count, metavar="N", help="prefill workers (1)")
    parser.add_argument("--decode", type=_count, metavar="N", help="decode workers (1)")
    parser.add_argument("--model-path", metavar="tiny|DIR", help="model of every worker (tiny)")
    parser.add_argument(
        "--max-total-tokens",
        type=_count,
        metavar="N",
        help="tokens in each worker's KV pool (8192)",
    )
    parser.add_argument(
        "--port", type=_port, metavar="PORT", help="port of the router (any free one)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="directory for logs and records (runs/up-TIME)"
    )
    parser.add_argument(
        "--for", dest="for_s", type=_seconds, metavar="SECONDS", help="end by itself after so long"
    )
    parser.add_argument(
        "--otlp-traces-endpoint",
        metavar="URL",
        help="also send every span there, e.g. Jaeger: http://127.0.0.1:4318/v1/traces",
    )
    parser.add_argument(
        "--json", action="store_true", help="print endpoints.json on stdout, all else on stderr"
    )
    parser.set_defaults(run=guarded(_up))


def _up(args: argparse.Namespace) -> int:
    from rich.console import Console

    from chaos.progress import Progress
    from chaos.up import UpOptions, run_up

    options = UpOptions(
        directory=args.out or Path("runs") / f"up-{time.strftime('%Y%m%d-%H%M%S')}",
        router_port=args.port,
        for_s=args.for_s,
        otlp_traces_endpoint=_endpoint(args.otlp_traces_endpoint),
        as_json=args.json,
    )
    console = Console(stderr=args.json, highlight=False, soft_wrap=True)
    return run_up(_scenario(args), options, Progress(console))


def _scenario(args: argparse.Namespace) -> Scenario:
    """The file's, or the defaults, with what the command line says."""
    import msgspec

    from chaos.scenario import Scenario, load_scenario

    scenario = Scenario(name="up") if args.file is None else load_scenario(args.file)
    worker = {"model_path": args.model_path, "max_total_tokens": args.max_total_tokens}
    deployment = {"prefill": args.prefill, "decode": args.decode}
    spec = scenario.deployment
    spec = msgspec.structs.replace(
        spec,
        worker=msgspec.structs.replace(spec.worker, **_given(worker)),
        **_given(deployment),
    )
    _check(spec.worker.max_total_tokens, spec.worker.page_size, spec.worker.model_path)
    return msgspec.structs.replace(scenario, name="up", deployment=spec, method=())


def _given(options: dict[str, int | str | None]) -> dict[str, int | str]:
    return {name: value for name, value in options.items() if value is not None}


def _check(max_total_tokens: int, page_size: int, model_path: str) -> None:
    """What every worker would refuse, before any is started."""
    if max_total_tokens % page_size:
        raise UsageError(f"--max-total-tokens {max_total_tokens} is no multiple of {page_size}")
    if not model_path:
        raise UsageError("--model-path is empty; give a model directory, or tiny")


def _endpoint(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise UsageError(f"--otlp-traces-endpoint {url!r} is no URL; begin it with http://")
    return url


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: give a whole number, 1 or larger")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give 1 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give seconds above 0")
    return seconds
