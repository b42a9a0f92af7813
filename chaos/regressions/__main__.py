"""Start a worker with a known bug in it, list the bugs, or run them all.

python -m chaos.regressions NAME -- severance serve --port ...
python -m chaos.regressions NAME -- scheduler ARGS_FILE       (the child of the first form)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from chaos.regressions import KNOWN, Process, find, load

USAGE = """\
usage: python -m chaos.regressions NAME -- severance serve ...
       python -m chaos.regressions --list
       python -m chaos.regressions --matrix --out DIR [--only NAME ...] [--doc FILE]
                                            [--tries N] [--max-load LOAD]"""


def _put_in(name: str, process: Process) -> None:
    if process in find(name).processes:
        load(name).apply()


def _run_worker(name: str, flags: list[str]) -> int:
    from engine.cli import add_serve_flags, serve_args
    from engine.errors import UsageError
    from engine.server.launch import serve

    parser = argparse.ArgumentParser(prog="severance serve")
    add_serve_flags(parser)
    try:
        args = serve_args(parser.parse_args(flags))
    except UsageError as error:
        print(f"severance serve: {error}", file=sys.stderr)
        return 2
    _put_in(name, Process.HTTP)
    child = (sys.executable, "-m", "chaos.regressions", name, "--", "scheduler")
    return serve(args, child)


def _run_scheduler(name: str, arguments_file: str) -> int:
    from engine.model.torch_threads import limit_torch_threads
    from engine.server.scheduler_process import main as scheduler_main

    limit_torch_threads()  # a bug in the model imports torch
    _put_in(name, Process.SCHEDULER)
    return scheduler_main(["scheduler", arguments_file])


def _list() -> int:
    for known in KNOWN:
        checks = " or ".join(known.caught_by)
        print(f"{known.name}: {known.what} ({known.incident}); {known.scenario}, by {checks}")
    return 0


def _run_matrix(flags: list[str]) -> int:
    from chaos.regressions.matrix import run_matrix

    parser = argparse.ArgumentParser(
        prog="python -m chaos.regressions --matrix",
        description="Run every bug in its scenario, and every scenario without a bug; print the table. "
        "A second call goes on where the first one ended.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="run directories")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these bugs only")
    parser.add_argument(
        "--doc", type=Path, metavar="FILE", help="write the table between the marks in this page"
    )
    parser.add_argument("--tries", type=int, default=3, help="runs of what came out as not judged")
    parser.add_argument(
        "--max-load",
        type=float,
        metavar="LOAD",
        help="begin no run while the machine's load average (of a minute) is above this",
    )
    args = parser.parse_args(flags)
    return run_matrix(args.out, tuple(args.only), args.doc, args.tries, args.max_load)


def main(argv: list[str]) -> int:
    match argv:
        case [name, "--", "severance", "serve", *flags]:
            find(name)
            return _run_worker(name, flags)
        case [name, "--", "scheduler", arguments_file]:
            return _run_scheduler(name, arguments_file)
        case ["--list"]:
            return _list()
        case ["--matrix", *flags]:
            return _run_matrix(flags)
    print(USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
