"""``severance serve`` with the scripted scheduler as its child: same flags, same exit codes."""

from __future__ import annotations

import argparse
import sys

from engine.cli import add_serve_flags, serve_args
from engine.server.launch import serve


def main() -> int:
    parser = argparse.ArgumentParser()
    add_serve_flags(parser)
    args = serve_args(parser.parse_args())
    return serve(args, (sys.executable, "-m", "tests.engine.server.fake_scheduler"))


if __name__ == "__main__":
    sys.exit(main())
