"""Every bug in its scenario, and every scenario without a bug: which checks failed. Long, so resumable.

``DIR/NAME.1``, ``.2`` ... are run directories; a run that could not be judged (exit code 4: a busy
machine) is tried again. Finished runs are judged again by the oracle of today, not run again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from chaos.codes import ExitCode
from chaos.oracle.judge import judge_run
from chaos.regressions import NAMES, Known, find
from chaos.verdict import CheckStatus, Verdict

HOME = Path(__file__).parents[2]
SCENARIOS = HOME / "chaos" / "scenarios" / "regress"
BEGIN, END = "<!-- matrix -->", "<!-- /matrix -->"
CLEAN = "clean"
_LOOK_AGAIN_S = 15.0


class Result(StrEnum):
    CAUGHT = "caught"
    WRONG_CHECK = "by another check"
    MISSED = "MISSED"
    GREEN = "green"
    RED = "RED"
    NOT_JUDGED = "not judged"


class Row(Struct, frozen=True, kw_only=True):
    """One line of the table. ``known`` None: the scenario without a bug."""

    scenario: str
    known: Known | None
    result: Result
    failed: tuple[str, ...]


def run_matrix(
    out: Path, only: tuple[str, ...], doc: Path | None, tries: int, max_load: float | None = None
) -> int:
    """Run what is missing, print the table; 0 if every bug is caught and every clean run is green.

    ``max_load``: no run begins while the machine's load average is above it. Raises ValueError for
    an unknown name.
    """
    wanted = [find(name) for name in only or NAMES]
    scenarios = dict.fromkeys(known.scenario for known in wanted)
    out.mkdir(parents=True, exist_ok=True)
    rows = [_row(out, scenario, None, tries, max_load) for scenario in scenarios]
    rows += [_row(out, known.scenario, known, tries, max_load) for known in wanted]
    text = table(rows)
    print(text)
    if doc is not None:
        _write_between_marks(doc, text)
    good = (Result.CAUGHT, Result.GREEN)
    return ExitCode.PASSED if all(row.result in good for row in rows) else ExitCode.FAILED


def _row(out: Path, scenario: str, known: Known | None, tries: int, max_load: float | None) -> Row:
    name = known.name if known else f"{CLEAN}-{scenario}"
    verdict = None
    for attempt in range(1, tries + 1):
        verdict = _verdict(out / f"{name}.{attempt}", scenario, known, max_load)
        if verdict is not None and verdict.exit_code != ExitCode.INVALID:
            break
    row = to_row(scenario, known, verdict)
    print(f"{name}: {row.result}, {', '.join(row.failed) or 'no check failed'}", file=sys.stderr)
    return row


def _verdict(
    directory: Path, scenario: str, known: Known | None, max_load: float | None
) -> Verdict | None:
    """Of a run that is there, or of a new one; None if the run left nothing to judge."""
    if not (directory / "verdict.json").exists():
        if directory.exists() and any(directory.iterdir()):
            return None  # a run that was broken off; its number is spent
        _wait_for_quiet(max_load)
        _run(directory, scenario, known)
    return judge_run(directory) if (directory / "run.json").exists() else None


def _wait_for_quiet(max_load: float | None) -> None:
    """On a busy machine a run proves nothing and takes three times as long."""
    while max_load is not None and os.getloadavg()[0] > max_load:
        time.sleep(_LOOK_AGAIN_S)


def _run(directory: Path, scenario: str, known: Known | None) -> None:
    command = [sys.executable, "-m", "severance", "run", str(SCENARIOS / f"{scenario}.yaml")]
    command += ["--out", str(directory)]
    command += ["--regression", known.name] if known else []
    log = directory.with_name(f"{directory.name}.log")
    with log.open("wb") as file:
        subprocess.run(command, cwd=HOME, stdout=file, stderr=subprocess.STDOUT, check=False)


def to_row(scenario: str, known: Known | None, verdict: Verdict | None) -> Row:
    """What one verdict says of one bug (or of the scenario, without one)."""
    checks = verdict.checks if verdict else ()
    failed = tuple(check.id for check in checks if check.status is CheckStatus.FAIL)
    return Row(
        scenario=scenario, known=known, result=_result(known, verdict, failed), failed=failed
    )


def _result(known: Known | None, verdict: Verdict | None, failed: tuple[str, ...]) -> Result:
    if verdict is None:
        return Result.NOT_JUDGED
    if known is not None and set(known.caught_by) & set(failed):
        return Result.CAUGHT
    if failed:
        return Result.RED if known is None else Result.WRONG_CHECK
    if verdict.exit_code != ExitCode.PASSED:
        return Result.NOT_JUDGED
    return Result.GREEN if known is None else Result.MISSED


def table(rows: list[Row]) -> str:
    """Markdown: bug, incident, scenario, checks that failed, result; expected checks are bold."""
    lines = ["| bug | after | scenario | checks that failed | result |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    caught = sum(row.result is Result.CAUGHT for row in rows)
    bugs = sum(row.known is not None for row in rows)
    return "\n".join([*lines, "", f"{caught} of {bugs} bugs caught by a check that should."])


def _cells(row: Row) -> Iterator[str]:
    known = row.known
    expected = known.caught_by if known else ()
    yield f"`{known.name}`: {known.what}" if known else "none"
    yield known.incident if known else ""
    yield f"`regress/{row.scenario}`"
    yield ", ".join(f"**{id}**" if id in expected else id for id in row.failed) or "none"
    yield str(row.result)


def _write_between_marks(doc: Path, text: str) -> None:
    """Raises ValueError if the page has no marks."""
    page = doc.read_text(encoding="utf-8")
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{doc} has no {BEGIN} and {END} to write the table between")
    doc.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
