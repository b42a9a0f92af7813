"""`conclude`: from the checks and how the run ended to one status and one exit code.

==============  =========  ==================================================================
exit code       status     when (the first that holds)
==============  =========  ==================================================================
5               residue    something was left behind
130             invalid    the user interrupted the run
1               failed     a check failed; so also with an unproven fault or a tripped guard
3               halted     a guard stopped the run
4               invalid    a check is unknown, nothing was proven, or the run did not finish
0               passed     every judged check that could look passed, and one looked at the deployment
==============  =========  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from chaos.codes import ExitCode
from chaos.verdict import CheckResult, CheckStatus, RunStatus


class Ending(Struct, frozen=True, kw_only=True):
    """How a run ended, as `run.json` says; a run without one did not finish."""

    finished: bool = False
    interrupted: bool = False
    halted_by: str | None = None
    residue: tuple[str, ...] = ()


class Conclusion(Struct, frozen=True, kw_only=True):
    """``reason``: why, in a line."""

    status: RunStatus
    exit_code: int
    reason: str


def conclude(ending: Ending, checks: Sequence[CheckResult]) -> Conclusion:
    """Everything that decides is in the arguments."""
    failed = _named(checks, CheckStatus.FAIL)
    unknown = ", ".join(check.id for check in checks if _is_unknown(check))
    if ending.residue:
        return _conclusion(RunStatus.RESIDUE, ExitCode.RESIDUE, f"left behind: {ending.residue[0]}")
    if ending.interrupted:
        also = f"; failed until then: {failed}" if failed else ""
        text = f"the run was interrupted{also}"
        return _conclusion(RunStatus.INVALID, ExitCode.INTERRUPTED, text)
    if failed:
        return _conclusion(RunStatus.FAILED, ExitCode.FAILED, f"failed: {failed}")
    if ending.halted_by:
        text = f"halted by guard {ending.halted_by}"
        return _conclusion(RunStatus.HALTED, ExitCode.HALTED, text)
    if unknown:
        return _conclusion(RunStatus.INVALID, ExitCode.INVALID, f"cannot be judged: {unknown}")
    if not ending.finished:
        return _conclusion(RunStatus.INVALID, ExitCode.INVALID, "the run did not finish")
    return _passed(checks)


def _passed(checks: Sequence[CheckResult]) -> Conclusion:
    """Nothing is against it; but something must speak for it, and not only the runner's own files."""
    if not any(check.status is CheckStatus.PASS and check.kinds for check in checks):
        return _conclusion(
            RunStatus.INVALID, ExitCode.INVALID, "no check could look at the deployment"
        )
    blind = _named(checks, CheckStatus.UNOBSERVABLE)
    shown = _named(checks, CheckStatus.REPORTED)
    text = "every check that could look passed" if blind else "every check passed"
    text = "every check that is judged passed" if shown else text
    text += f"; not observable: {blind}" if blind else ""
    text += f"; reported only: {shown}" if shown else ""
    return _conclusion(RunStatus.PASSED, ExitCode.PASSED, text)


def _is_unknown(check: CheckResult) -> bool:
    """A pass that examined nothing is none, whoever made it."""
    blind_pass = check.status is CheckStatus.PASS and check.examined <= 0
    return check.status is CheckStatus.UNKNOWN or blind_pass


def _conclusion(status: RunStatus, exit_code: int, reason: str) -> Conclusion:
    return Conclusion(status=status, exit_code=exit_code, reason=reason)


def _named(checks: Sequence[CheckResult], status: CheckStatus) -> str:
    return ", ".join(check.id for check in checks if check.status is status)
