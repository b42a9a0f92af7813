"""What the user sees while a run goes on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from chaos.verdict import CheckResult, CheckStatus, RunStatus, Verdict

_STATUS_STYLE = {
    RunStatus.PASSED: "bold green",
    RunStatus.FAILED: "bold red",
    RunStatus.HALTED: "bold red",
    RunStatus.INVALID: "bold yellow",
    RunStatus.RESIDUE: "bold red",
}
_MANY = 8
_WORST_FIRST = (
    CheckStatus.FAIL,
    CheckStatus.UNKNOWN,
    CheckStatus.REPORTED,
    CheckStatus.UNOBSERVABLE,
)


class Progress:
    """Each line begins with the seconds since the start."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._begun = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def say(self, text: str, style: str = "") -> None:
        line = f"{self.elapsed_s:6.1f} s  {escape(text)}"
        self._console.print(f"[{style}]{line}[/]" if style else line)

    @contextmanager
    def during(self, text: str) -> Iterator[None]:
        """Say what is going on; on a terminal the line is live until it is done."""
        self.say(text)
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(escape(text)):
            yield

    def verdict(self, verdict: Verdict, directory: Path) -> None:
        """The block at the end: status, what is wrong, where to read on."""
        passed = sum(check.status is CheckStatus.PASS for check in verdict.checks)
        self._console.print()
        style = _STATUS_STYLE[verdict.status]
        self._console.print(
            f"[{style}]{verdict.status.upper()}[/]  {escape(verdict.scenario)}"
            f"  {passed} of {len(verdict.checks)} checks pass, exit code {verdict.exit_code}"
            f"{escape(f'  ({verdict.reason[:200]})') if verdict.reason else ''}"
        )
        for status in _WORST_FIRST:
            self._checks(status, [check for check in verdict.checks if check.status is status])
        for fault in verdict.faults:
            name = ", ".join((*fault.links, *fault.workers))
            heal = f"{fault.heal_ms:.0f} ms" if fault.heal_ms is not None else "not healed"
            self._console.print(
                escape(
                    f"  fault {fault.id} {fault.mode} {name}:"
                    f" {'proven' if fault.proven else 'NOT PROVEN'}, {fault.exposed} requests exposed,"
                    f" healed by {fault.heal_rung} in {heal}"
                )
            )
        counts = verdict.requests
        self._console.print(
            f"  requests {counts.total}: {counts.completed} completed,"
            f" {sum(counts.aborted.values())} aborted by clients,"
            f" {sum(counts.aborted_server.values())} by servers, {sum(counts.failed.values())} failed"
        )
        for left in verdict.residue:
            self._console.print(f"  LEFT BEHIND  {escape(left)}", style="bold red")
        self._console.print(f"  report: {escape(str(directory / 'report.html'))}")

    def _checks(self, status: CheckStatus, checks: list[CheckResult]) -> None:
        """A sentence each; where little could be judged at all, the names suffice."""
        if status is not CheckStatus.FAIL and len(checks) > _MANY:
            names = ", ".join(check.id for check in checks)
            self._console.print(f"  {status.upper():<12} {len(checks)} checks: {escape(names)}")
            return
        for check in checks:
            self._console.print(
                f"  {status.upper():<12} {escape(check.id)}: expected {escape(check.expected)};"
                f" observed {escape(check.observed)}"
            )
