"""Hands a run directory to the oracle and to the report, and turns the verdict into an exit code."""

from __future__ import annotations

import traceback
from pathlib import Path

from chaos.codes import ExitCode
from chaos.progress import Progress
from chaos.verdict import Verdict


def judge(
    directory: Path,
    progress: Progress,
    *,
    interrupted: bool = False,
    residue: list[str] | None = None,
) -> int:
    """Write verdict, aborts, junit, summary and report; returns the exit code.

    An oracle that breaks is no verdict (4); a report that breaks is said and changes nothing.
    """
    try:
        with progress.during("judging"):
            verdict = _judge(directory)
    except Exception:
        progress.say(
            f"the oracle failed on {directory}:\n{traceback.format_exc()}", style="bold red"
        )
        return _without_verdict(interrupted, residue)
    try:
        _publish(directory, verdict)
    except Exception:
        progress.say(f"the report failed:\n{traceback.format_exc()}", style="bold red")
    progress.verdict(verdict, directory)
    return ExitCode.INTERRUPTED if interrupted and not residue else verdict.exit_code


def _without_verdict(interrupted: bool, residue: list[str] | None) -> int:
    if residue:
        return ExitCode.RESIDUE
    return ExitCode.INTERRUPTED if interrupted else ExitCode.INVALID


def _judge(directory: Path) -> Verdict:
    from chaos.oracle.judge import judge_run

    return judge_run(directory)


def _publish(directory: Path, verdict: Verdict) -> None:
    from dashboards.github_summary import write_summary
    from dashboards.junit import write_junit
    from dashboards.report.page import write_report

    write_junit(directory, verdict)
    write_summary(directory, verdict)
    write_report(directory)
