"""``severance serve`` whose scheduler notes its steps (`bench.stepped_scheduler`): same flags."""

from __future__ import annotations

import argparse
import sys

from engine.cli import add_serve_flags, serve_args
from engine.server.launch import serve


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_serve_flags(parser)
    args = serve_args(parser.parse_args())
    return serve(args, (sys.executable, "-m", "bench.stepped_scheduler"))


if __name__ == "__main__":
    sys.exit(main())
