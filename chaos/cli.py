"""Commands of this package: `up`, `run`, `check`, `heal`, `doctor`, `compare`, and `chaos.scenario_cli`'s.

Heavy imports happen inside them.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from chaos import compare
from chaos.brake_cli import add_brake, run_brake
from chaos.codes import ExitCode
from chaos.errors import BrakeOn, ChaosError, UsageError
from chaos.scenario_cli import add_scenario_commands, add_setting
from chaos.up_cli import add_up

if TYPE_CHECKING:
    from chaos.spec import Scenario
    from chaos.target import Target

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Command = Callable[[argparse.Namespace], int]
_EXIT_CODES = (
    "exit codes: 0 passed, 1 failed, 2 usage, 3 halted by a guard, 4 invalid or unknown, "
    "5 something was left behind, 130 interrupted (after healing)"
)


def add_commands(subparsers: Commands) -> None:
    """Mount this package's commands on the top command."""
    add_up(subparsers, _guarded)
    _add_run(subparsers)
    add_scenario_commands(subparsers)
    _add_check(subparsers)
    _add_heal(subparsers)
    _add_doctor(subparsers)
    add_brake(subparsers).set_defaults(run=_guarded(run_brake))
    compare.add_commands(subparsers)


def _guarded(command: Command) -> Command:
    """Turn our own errors into one message on stderr and an exit code."""

    @functools.wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except UsageError as error:
            print(f"severance {args.command}: {error}", file=sys.stderr)
            return ExitCode.USAGE
        except ChaosError as error:
            print(f"severance {args.command}: {error}", file=sys.stderr)
            return ExitCode.HALTED if isinstance(error, BrakeOn) else ExitCode.INVALID

    return run


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: give a whole number, 0 or larger")
    return int(text)


def _add_run(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a scenario or a suite: start, load, break, heal, judge",
        description=(
            "Run one scenario on this machine and judge it; or a suite (a folder of scenarios), one after "
            "the other into DIR/NAME, with a summary in DIR/suite.json."
        ),
        epilog=_EXIT_CODES,
    )
    parser.add_argument(
        "scenario", type=Path, metavar="SCENARIO|SUITE", help="a scenario file (YAML), or a folder"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="run directory, new or empty")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what the run would do, and start nothing"
    )
    parser.add_argument("--seed", type=_seed, help="instead of the scenario's")
    add_setting(parser)
    parser.add_argument(
        "--regression",
        metavar="NAME",
        help="put a known bug back into the workers, to see that it is caught (chaos/regressions)",
    )
    parser.add_argument(
        "--target",
        type=Path,
        metavar="FILE",
        help="against a deployment that somebody else started (docs/targets.md); nothing of it is ended",
    )
    parser.set_defaults(run=_guarded(_run))


def _run(args: argparse.Namespace) -> int:
    from chaos.regressions import NAMES
    from chaos.runner import run_scenario
    from chaos.scenario import load_scenario
    from chaos.suite import load_suite, run_suite
    from chaos.variables import parse_settings

    settings = parse_settings(args.set)
    if args.regression is not None and args.regression not in NAMES:
        raise UsageError(f"--regression {args.regression}: unknown, use one of {', '.join(NAMES)}")
    if args.scenario.is_dir():
        suite = load_suite(args.scenario, args.seed, settings)
    else:
        suite = [(args.scenario, load_scenario(args.scenario, args.seed, settings))]
    if args.dry_run:
        return _preview([scenario for _, scenario in suite])
    target = _target(args, [scenario for _, scenario in suite])
    if args.out is None:
        raise UsageError("--out is missing: name a new directory, for example --out runs/first")
    if args.scenario.is_dir():
        return run_suite(suite, args.out, args.regression, target)
    return run_scenario(suite[0][1], args.out, args.regression, target=target)


def _target(args: argparse.Namespace, scenarios: list[Scenario]) -> Target | None:
    """Raises `UsageError` if the one scenario does not fit; a suite skips those that do not."""
    from chaos.target import load_target
    from chaos.target_fit import unsupported

    if args.target is None:
        return None
    if args.regression is not None:
        raise UsageError("--regression needs workers of our own; leave out --target")
    target = load_target(args.target)
    problems = unsupported(scenarios[0], target) if not args.scenario.is_dir() else []
    if problems:
        lines = "\n".join(f"  unsupported: {problem}" for problem in problems)
        raise UsageError(f"{args.target} cannot do what {args.scenario} asks:\n{lines}")
    return target


def _preview(scenarios: list[Scenario]) -> int:
    from chaos.preview import preview

    for scenario in scenarios:
        for line in preview(scenario):
            print(line)
    return ExitCode.PASSED


def _add_check(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "check",
        help="judge a run directory again",
        description=(
            "Judge a run directory again: rewrites verdict.json, aborts.jsonl, junit.xml, report.html."
        ),
        epilog=_EXIT_CODES,
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="directory that a run wrote")
    parser.set_defaults(run=_guarded(_check))


def _check(args: argparse.Namespace) -> int:
    from chaos.judging import judge
    from chaos.progress import Progress

    if not (args.run_dir / "run.json").is_file():
        raise UsageError(f"{args.run_dir} is no run directory: it has no run.json")
    return judge(args.run_dir, Progress())


def _add_heal(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "heal",
        help="clean up after a run that crashed",
        description=(
            "End what a crashed run left (processes by pid and start time, never by name) and mark its "
            "faults healed. Without RUN: every crashed run of this user. Exit code 0: clean, 5: "
            "something is left."
        ),
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("run_dir", type=Path, nargs="?", metavar="RUN", help="one run directory")
    which.add_argument("--all", action="store_true", help="every crashed run (the default)")
    parser.set_defaults(run=_guarded(_heal))


def _heal(args: argparse.Namespace) -> int:
    from chaos.recover import crashed_runs, recover
    from chaos.registry import unregister

    if args.run_dir is not None:
        targets = [args.run_dir]
    else:
        runs = crashed_runs()
        for run in runs:
            if not Path(run.directory).is_dir():
                unregister(run.run_id)
        targets = [Path(run.directory) for run in runs if Path(run.directory).is_dir()]
    if not targets:
        print("no crashed run is known; nothing to heal")
    recoveries = [recover(directory) for directory in targets]
    for recovery in recoveries:
        print(f"{recovery.directory}:")
        for line in recovery.done or ("nothing was left to do",):
            print(f"  {line}")
        for line in recovery.left:
            print(f"  STILL THERE: {line}")
    return ExitCode.RESIDUE if any(recovery.left for recovery in recoveries) else ExitCode.PASSED


def _add_doctor(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="check that this machine has what a run needs",
        description="Check toxiproxy, router, torch, ports, threads and limits. Exit code 0 or 1.",
    )
    parser.add_argument("--fix", action="store_true", help="build toxiproxy if it is missing")
    parser.set_defaults(run=_guarded(_doctor))


def _doctor(args: argparse.Namespace) -> int:
    from chaos.doctor import examine, missing, print_findings

    findings = examine(fix=args.fix)
    print_findings(findings)
    return 1 if missing(findings) else ExitCode.PASSED
