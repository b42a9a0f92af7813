"""Commands about scenario files: `list`, `validate` and `schema`, which start nothing, and `shrink`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.codes import ExitCode
from chaos.errors import Interrupted, ScenarioError, UsageError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_scenario_commands(subparsers: Commands) -> None:
    _add_list(subparsers)
    _add_validate(subparsers)
    _add_schema(subparsers)
    _add_shrink(subparsers)


def _add_list(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "list",
        help="list scenarios",
        description="List the scenarios of a folder: file, faults, seconds, what it is about.",
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="default: the shipped ones"
    )
    parser.set_defaults(run=_list)


def _list(args: argparse.Namespace) -> int:
    from chaos.preview import about_s, summary
    from chaos.scenario import load_scenario
    from chaos.scenario_files import SHIPPED, find_scenarios

    folder = args.folder or SHIPPED
    try:
        for path in find_scenarios(folder):
            scenario = load_scenario(path)
            where = path.relative_to(folder) if path != folder else path
            faults = f"{len(scenario.method)} fault{'s' * (len(scenario.method) != 1)}"
            print(f"{where!s:<34} {faults:<9} {about_s(scenario):4.0f} s  {summary(scenario)}")
    except UsageError as error:
        print(f"severance list: {error}", file=sys.stderr)
        return ExitCode.USAGE
    return ExitCode.PASSED


def _add_validate(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "validate",
        help="check scenario files",
        description=(
            "Check scenario files, or every one in a folder, without running them. "
            "Exit codes: 0 all are good, 2 one is not (each error names file and field)."
        ),
    )
    parser.add_argument("paths", type=Path, nargs="+", metavar="FILE|FOLDER")
    add_setting(parser)
    parser.set_defaults(run=_validate)


def add_setting(parser: argparse.ArgumentParser) -> None:
    """``--set NAME=VALUE``, for every command that reads a scenario."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value for a variable of the scenario; may be repeated",
    )


def _validate(args: argparse.Namespace) -> int:
    from chaos.scenario import load_scenario
    from chaos.scenario_files import find_scenarios
    from chaos.variables import parse_settings

    num_bad = 0
    try:
        settings = parse_settings(args.set)
        paths = [path for given in args.paths for path in find_scenarios(given)]
        for path in paths:
            try:
                load_scenario(path, settings=settings)
                print(f"ok     {path}")
            except ScenarioError as error:
                num_bad += 1
                print(f"WRONG  {path}: {error}")
    except UsageError as error:
        print(f"severance validate: {error}", file=sys.stderr)
        return ExitCode.USAGE
    print(f"{len(paths) - num_bad} of {len(paths)} scenario files are good")
    return ExitCode.USAGE if num_bad else ExitCode.PASSED


def _add_schema(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "schema",
        help="print the JSON Schema of scenario files",
        description=(
            "Print the JSON Schema of scenario files for an editor: severance schema > scenario.schema.json; "
            "as the first line of a scenario: # yaml-language-server: $schema=scenario.schema.json"
        ),
    )
    parser.set_defaults(run=_schema)


def _schema(args: argparse.Namespace) -> int:
    from chaos.schema import scenario_schema

    sys.stdout.buffer.write(scenario_schema())
    return ExitCode.PASSED


def _add_shrink(subparsers: Commands) -> None:
    parser = subparsers.add_parser(
        "shrink",
        help="make a failing scenario smaller, by running it again and again",
        description=(
            "Run a failing scenario with fewer and shorter faults, each K times, and keep the smallest that "
            "still fails by the same check: DIR/shrunk.yaml, every run in DIR/NN. Exit codes: 0 it never "
            "failed, 1 it fails, 2 usage, 130 interrupted (after healing)."
        ),
    )
    parser.add_argument("scenario", type=Path, metavar="SCENARIO")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="new or empty")
    parser.add_argument("--seed", type=int, help="instead of the scenario's")
    add_setting(parser)
    parser.add_argument("--times", type=int, default=3, metavar="K", help="runs of each (3)")
    parser.add_argument("--max-runs", type=int, default=30, help="runs in all, at most (30)")
    parser.add_argument("--regression", metavar="NAME", help="with a known bug put back")
    parser.set_defaults(run=_shrink)


def _shrink(args: argparse.Namespace) -> int:
    from chaos.scenario import load_scenario
    from chaos.shrink_runs import shrink_runs
    from chaos.variables import parse_settings

    try:
        if args.times < 1 or args.max_runs < args.times:
            raise UsageError("--times must be 1 or more, and --max-runs not smaller")
        scenario = load_scenario(args.scenario, args.seed, parse_settings(args.set))
        return shrink_runs(scenario, args.out, args.times, args.max_runs, args.regression)
    except UsageError as error:
        print(f"severance shrink: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except Interrupted:
        return ExitCode.INTERRUPTED
