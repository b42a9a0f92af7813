"""A suite: every scenario of a folder, one after the other, with one summary and one exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from chaos.codes import ExitCode
from chaos.errors import UsageError
from chaos.progress import Progress
from chaos.run_context import prepare_out
from chaos.runner import run_scenario
from chaos.scenario import Scenario, load_scenario
from chaos.target import Target
from chaos.target_fit import unsupported
from chaos.variables import Scalar

SUITE_SCHEMA = "severance.suite/1"
# If several hold: residue, then a failure, a halt, an invalid run (DESIGN 4).
_WORST_FIRST = (ExitCode.RESIDUE, ExitCode.FAILED, ExitCode.HALTED, ExitCode.INVALID)


class SuiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario's run. ``exit_code`` None: not run, since the suite was interrupted before, or for what
    ``unsupported`` says."""

    scenario: str
    directory: str
    exit_code: int | None
    duration_s: float
    unsupported: str = ""


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """`suite.json`."""

    schema: str
    exit_code: int
    rows: tuple[SuiteRow, ...]


def load_suite(
    folder: Path, seed: int | None, settings: Mapping[str, Scalar]
) -> list[tuple[Path, Scenario]]:
    """Every scenario directly in ``folder``, by name. Raises `UsageError` for the first bad one."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise UsageError(f"{folder} holds no scenario (*.yaml)")
    return [(path, load_scenario(path, seed, settings)) for path in paths]


def run_suite(
    scenarios: Sequence[tuple[Path, Scenario]],
    directory: Path,
    regression: str | None,
    target: Target | None = None,
) -> int:
    """Run them all; a scenario that fails does not stop the rest, an interrupt does. One that ``target`` does
    not fit is skipped, and said to be; a suite of which nothing fits raises `UsageError`."""
    misfits = {path: unsupported(one, target) for path, one in scenarios} if target else {}
    if misfits and all(misfits.values()):
        raise UsageError(
            f"nothing of this suite fits the target; {next(iter(misfits.values()))[0]}"
        )
    prepare_out(directory)
    progress = Progress()
    rows: list[SuiteRow] = []
    code: int | None = None
    for path, scenario in scenarios:
        out = directory / path.stem
        if code == ExitCode.INTERRUPTED:
            rows.append(
                SuiteRow(scenario=path.stem, directory=str(out), exit_code=None, duration_s=0.0)
            )
            continue
        if misfits.get(path):
            why = "; ".join(misfits[path])
            progress.say(f"scenario {path.stem} is unsupported: {why}", style="yellow")
            rows.append(
                SuiteRow(
                    scenario=path.stem,
                    directory=str(out),
                    exit_code=None,
                    duration_s=0.0,
                    unsupported=why,
                )
            )
            continue
        progress.say(f"scenario {path.stem}", style="bold")
        began = time.monotonic()
        code = run_scenario(scenario, out, regression, target=target)
        took_s = time.monotonic() - began
        rows.append(
            SuiteRow(scenario=path.stem, directory=str(out), exit_code=code, duration_s=took_s)
        )
    return _summarize(directory, rows, progress)


def worst(codes: list[int]) -> int:
    """The one exit code that stands for several."""
    if ExitCode.INTERRUPTED in codes:
        return ExitCode.INTERRUPTED
    return next((code for code in _WORST_FIRST if code in codes), ExitCode.PASSED)


def _summarize(directory: Path, rows: list[SuiteRow], progress: Progress) -> int:
    code = worst([row.exit_code for row in rows if row.exit_code is not None])
    suite = Suite(schema=SUITE_SCHEMA, exit_code=code, rows=tuple(rows))
    path = directory / "suite.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(suite), indent=2))
    progress.say("")
    for row in rows:
        ended = "not run" if row.exit_code is None else f"exit code {row.exit_code}"
        ended = "unsupported" if row.unsupported else ended
        progress.say(f"{row.scenario:<24} {ended:<14} {row.duration_s:6.1f} s  {row.directory}")
    progress.say(f"suite: exit code {code}, see {path}", style="bold")
    return code
