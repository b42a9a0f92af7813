"""``python -m loadtest load ...``: the load driver alone."""

from __future__ import annotations

import argparse
import sys

from loadtest.cli import add_commands


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__)
    add_commands(parser.add_subparsers(metavar="COMMAND", required=True))
    args = parser.parse_args()
    code: int = args.run(args)
    return code


if __name__ == "__main__":
    sys.exit(main())
