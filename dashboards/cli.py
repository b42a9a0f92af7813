"""Commands of this package: `spanstore`, `report`, `export`. Heavy imports happen inside them."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dashboards.errors import DashboardError, OutputUnwritable

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Command = Callable[[argparse.Namespace], int]
FORMATS = ("jaeger", "otlp", "chaostoolkit")
MAX_PORT = 65_535
EXIT_SIGPIPE = 141


def add_commands(subparsers: Commands) -> None:
    """Mount this package's commands on the top command."""
    _add_spanstore(subparsers)
    _add_report(subparsers)
    _add_export(subparsers)


def _guarded(command: Command) -> Command:
    """Turn our own errors into one line on stderr and an exit code."""

    @functools.wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except DashboardError as error:
            print(f"severance {args.command}: {error}", file=sys.stderr)
            return error.exit_code

    return run


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no port: give 0 (any free one) to {MAX_PORT}"
        )
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count: give a whole number, 1 or larger")
    return int(text)


def _add_spanstore(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "spanstore",
        help="keep the spans of a run: OTLP over HTTP in, one SQLite file out",
        description=(
            "Take OTLP spans on POST /v1/traces (protobuf or JSON, gzip or not) and keep them in one"
            " SQLite file. Prints 'spanstore listening on HOST:PORT' when it is ready. GET /health is"
            " 503 while the file cannot be written; GET /stats counts spans kept and dropped."
            " SIGTERM writes what waits and exits 0 (1: the file could not be written)."
            " It ends when the process that started it ends."
        ),
    )
    parser.add_argument(
        "--db", type=Path, required=True, metavar="PATH", help="SQLite file to add to"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port", type=_port, default=4318, help="port to listen on; 0: any free one (%(default)s)"
    )
    parser.add_argument(
        "--forward",
        metavar="URL",
        help="also send every span to this OTLP/HTTP endpoint, best effort"
        " (e.g. Jaeger: http://127.0.0.1:4318/v1/traces)",
    )
    parser.add_argument(
        "--max-spans",
        type=_count,
        metavar="N",
        help="forget the oldest spans beyond N, so that the file stops growing (default: keep all)",
    )
    parser.add_argument(
        "--parent-pid",
        type=int,
        metavar="PID",
        help="end as soon as PID is not the parent (default: whoever the parent is at the start)",
    )
    parser.set_defaults(run=_guarded(_spanstore))


def _spanstore(args: argparse.Namespace) -> int:
    from dashboards.spanstore.process import StoreOptions, run_store

    return run_store(
        StoreOptions(
            db=args.db,
            host=args.host,
            port=args.port,
            forward=args.forward,
            max_spans=args.max_spans,
            parent_pid=args.parent_pid,
        )
    )


def _add_report(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "report",
        help="make report.html and junit.xml of a run",
        description=(
            "Write RUN/report.html (one self-contained page) and, where the run has been judged,"
            " RUN/junit.xml. Works on runs that were cut short: the page says what is missing."
        ),
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="directory that a run wrote")
    parser.set_defaults(run=_guarded(_report))


def _report(args: argparse.Namespace) -> int:
    from dashboards.junit import write_junit
    from dashboards.report.page import write_page
    from dashboards.run_dir import load_run

    run = load_run(args.run_dir)
    print(write_page(run))
    if run.verdict is None:
        print(
            f"no junit.xml: the run is not judged yet; `severance check {args.run_dir}` does that",
            file=sys.stderr,
        )
    else:
        print(write_junit(args.run_dir, run.verdict))
    return 0


def _add_export(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "export",
        help="export a run's traces for Jaeger or any OTLP reader, or its verdict for others",
        description=(
            "Write the traces of RUN/spans.sqlite as one JSON document. jaeger: for 'JSON File' on the"
            " search page of the Jaeger UI. otlp: one OTLP JSON document (resourceSpans). chaostoolkit:"
            " not the traces but the verdict, as a Chaos Toolkit journal."
        ),
        epilog=(
            "example: severance export runs/one --format jaeger --where pd.abort.reason=peer_dead"
            " --out aborted.json"
        ),
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="directory that a run wrote")
    parser.add_argument("--format", choices=FORMATS, required=True, help="document to write")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="keep only whole traces that have a span with this value; given several times, one span"
        " must have them all. KEY: a span attribute (pd.abort.reason), or rid, trace_id, service, name",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="file to write (default: standard output)"
    )
    parser.set_defaults(run=_guarded(_export))


def _export(args: argparse.Namespace) -> int:
    from dashboards.export import ExportFormat, export_run

    document, traces = export_run(args.run_dir, ExportFormat(args.format), tuple(args.where))
    if args.out is None:
        return _print_bytes(document)
    try:
        args.out.write_bytes(document)
    except OSError as error:
        raise OutputUnwritable(args.out, error) from error
    print(f"{args.out}: {traces} traces", file=sys.stderr)
    return 0


def _print_bytes(document: bytes) -> int:
    """To stdout; a reader that has seen enough (``| head``) is no error of ours to print."""
    try:
        sys.stdout.buffer.write(document + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_SIGPIPE
    return 0
