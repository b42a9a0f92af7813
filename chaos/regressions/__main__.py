"""Start a worker with a known bug in its scheduler process.

python -m chaos.regressions NAME -- severance serve --port ...
python -m chaos.regressions NAME -- scheduler ARGS_FILE       (the child of the first form)
"""

from __future__ import annotations

import argparse
import sys

from chaos.regressions import load
from engine.cli import add_serve_flags, serve_args
from engine.errors import UsageError
from engine.server.launch import serve
from engine.server.scheduler_process import main as scheduler_main

USAGE = "usage: python -m chaos.regressions NAME -- severance serve ..."


def _run_worker(name: str, flags: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="severance serve")
    add_serve_flags(parser)
    try:
        args = serve_args(parser.parse_args(flags))
    except UsageError as error:
        print(f"severance serve: {error}", file=sys.stderr)
        return 2
    child = (sys.executable, "-m", "chaos.regressions", name, "--", "scheduler")
    return serve(args, child)


def main(argv: list[str]) -> int:
    match argv:
        case [name, "--", "severance", "serve", *flags]:
            load(name)
            return _run_worker(name, flags)
        case [name, "--", "scheduler", arguments_file]:
            load(name).apply()
            return scheduler_main(["scheduler", arguments_file])
    print(USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
