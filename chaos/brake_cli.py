"""`severance brake on|off|status`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaos.codes import ExitCode

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_TEXT = (
    "The brake of this machine. While it is on, every run here halts and heals at once (exit code 3), and "
    "none starts. It is a file: $SEVERANCE_BRAKE, else /var/tmp/severance.brake or `brake` in the cache "
    "directory of Severance. $SEVERANCE_BRAKE_URL names an endpoint that must answer 2xx as well."
)


def add_brake(subparsers: Commands) -> argparse.ArgumentParser:
    """Mount the command; the caller sets what guards it."""
    parser = subparsers.add_parser(
        "brake",
        help="stop every run on this machine, and let none start",
        description=_TEXT,
        epilog="exit codes: 0 done (status: the brake is off), 2 usage, 3 status: the brake is on",
    )
    parser.add_argument("do", choices=("on", "off", "status"), help="what to do with it")
    parser.add_argument("--reason", default="", metavar="TEXT", help="shown to whoever is stopped")
    return parser


def run_brake(args: argparse.Namespace) -> int:
    """Raises `UsageError` if the file cannot be written or removed."""
    from chaos.lever import put_on, take_off, why_on

    if args.do == "on":
        print(f"the brake is on: {put_on(args.reason)}. `severance brake off` takes it off")
    elif args.do == "off":
        removed = take_off()
        print(f"the brake is off{''.join(f'; removed {path}' for path in removed)}")
    reason = why_on()
    if args.do == "status":
        print(f"on: {reason}" if reason else "off: runs may start")
        return ExitCode.HALTED if reason else ExitCode.PASSED
    return ExitCode.PASSED
