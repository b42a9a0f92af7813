"""`severance shrink`: real runs under the shrinker, and its answer as a file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.codes import ExitCode
from chaos.errors import Interrupted
from chaos.progress import Progress
from chaos.run_context import prepare_out
from chaos.runner import run_scenario
from chaos.scenario import Scenario, dump_scenario
from chaos.shrink import Shrinker
from chaos.verdict import CheckStatus, Verdict


def shrink_runs(
    scenario: Scenario, directory: Path, times: int, max_runs: int, regression: str | None
) -> int:
    """Writes ``shrunk.yaml``; returns the exit code. Raises `UsageError` and `Interrupted`."""
    prepare_out(directory)
    progress = Progress()
    numbers = iter(range(max_runs))

    def run(candidate: Scenario) -> frozenset[str]:
        out = directory / f"{next(numbers):02d}"
        return failed_checks(run_scenario(candidate, out, regression), out)

    tally = Shrinker(run, times, max_runs, progress.say).shrink(scenario)
    path = directory / "shrunk.yaml"
    dump_scenario(tally.scenario, path)
    progress.say(f"{scenario.name} {tally}", style="bold")
    if not tally.num_failed:
        progress.say("it did not fail, so there is nothing to shrink; try --times 10")
        return ExitCode.PASSED
    left = len(tally.scenario.method)
    progress.say(
        f"{left} of {len(scenario.method)} faults are left: severance run {path} --out DIR"
    )
    return ExitCode.FAILED


def failed_checks(code: int, directory: Path) -> frozenset[str]:
    """Ids of the checks that failed. An invalid run proves nothing, so it did not fail."""
    if code == ExitCode.INTERRUPTED:
        raise Interrupted("shrinking was interrupted")
    if code != ExitCode.FAILED:
        return frozenset()
    verdict = msgspec.json.decode((directory / "verdict.json").read_bytes(), type=Verdict)
    return frozenset(check.id for check in verdict.checks if check.status is CheckStatus.FAIL)
