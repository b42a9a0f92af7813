"""The one public place of the distribution: ``severance.main`` mounts every package's commands.

The four packages are top-level names (``engine``, ``chaos``, ``loadtest``, ``dashboards``), so another
project's package of the same name can shadow one of ours; `main` says so instead of failing oddly.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path

__version__ = "0.1.0"
_PACKAGES = ("engine", "chaos", "loadtest", "dashboards")
EXIT_USAGE = 2


def _shadowed() -> str | None:
    """Name the first of our packages that resolves to somebody else's code."""
    home = Path(__file__).resolve().parent
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or home not in origin.parents:
            return f"{name} ({origin or 'not found'})"
    return None


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="severance",
        description="Cut a prefill/decode LLM deployment apart, abort its requests, and prove that it coped.",
    )
    parser.add_argument("--version", action="version", version=f"severance {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for package in _PACKAGES:
        importlib.import_module(f"{package}.cli").add_commands(commands)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code (2: usage)."""
    stranger = _shadowed()
    if stranger:
        print(
            f"severance: the package {stranger} is not Severance's own; "
            "install severance as a tool (uv tool install severance) or in its own environment",
            file=sys.stderr,
        )
        return EXIT_USAGE
    args = build_parser().parse_args(argv)
    result: int = args.run(args)
    return result


if __name__ == "__main__":
    sys.exit(main())
