"""`severance compare RUN1 RUN2`: checks that changed and figures side by side. Exit code 1 on a regression.

A check that passed and is gone is a regression too; one that looks at far less than before is shown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chaos.codes import ExitCode
from chaos.errors import UsageError
from chaos.verdict import CheckResult, CheckStatus, Verdict

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Struct = msgspec.Struct
COMPARE_SCHEMA = "severance.compare/1"
_BEST_FIRST = (
    CheckStatus.PASS,
    CheckStatus.UNOBSERVABLE,
    CheckStatus.REPORTED,
    CheckStatus.UNKNOWN,
    CheckStatus.FAIL,
)


class Change(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    NEW = "new"
    GONE = "gone"
    FEWER = "fewer"
    """It passes as before, but looked at less than half as much."""


class CheckChange(Struct, frozen=True, kw_only=True):
    """``before`` and ``after`` None: that run did not have the check."""

    id: str
    change: Change
    before: CheckStatus | None
    after: CheckStatus | None
    observed: str


class Figure(Struct, frozen=True, kw_only=True):
    """One number of both runs. ``ratio`` after / before, where that means something. Smaller is better."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        if self.before is None or self.after is None or self.before <= 0:
            return None
        return self.after / self.before


class Comparison(Struct, frozen=True, kw_only=True):
    """``regressions``: why the second run is worse, in words; empty: it is not."""

    schema: str
    before: str
    after: str
    exit_codes: tuple[int, int]
    checks: tuple[CheckChange, ...]
    figures: tuple[Figure, ...]
    regressions: tuple[str, ...]


def add_commands(subparsers: Commands) -> None:
    """Mount `severance compare` on the top command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two runs: what got better, what got worse",
        description=(
            "Compare the verdicts of two runs of one scenario: checks that changed, figures side by "
            "side. A check that got worse or is gone is a regression; a figure only with --max-ratio."
        ),
        epilog="exit codes: 0 no regression, 1 regression, 2 usage",
    )
    parser.add_argument("before", type=Path, metavar="RUN1", help="run directory to compare with")
    parser.add_argument("after", type=Path, metavar="RUN2", help="run directory that may be worse")
    parser.add_argument(
        "--max-ratio",
        type=_ratio,
        metavar="R",
        help="a figure that grew to more than R times its value is a regression too",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=_run)


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no ratio: give a number, 1 or larger")
    return value


def _run(args: argparse.Namespace) -> int:
    try:
        first, second = read_verdict(args.before), read_verdict(args.after)
        if first.scenario != second.scenario:
            raise UsageError(
                f"{args.before} ran {first.scenario}, {args.after} ran {second.scenario}; "
                "only runs of one scenario can be compared"
            )
    except UsageError as error:
        print(f"severance compare: {error}", file=sys.stderr)
        return ExitCode.USAGE
    comparison = compare(first, second, str(args.before), str(args.after), args.max_ratio)
    text = msgspec.json.encode(comparison).decode() if args.json else render(comparison)
    print(text)
    return ExitCode.FAILED if comparison.regressions else ExitCode.PASSED


def read_verdict(run_dir: Path) -> Verdict:
    """Raises `UsageError` that says what to do."""
    path = run_dir / "verdict.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Verdict)
    except OSError as error:
        hint = f"judge it first: severance check {run_dir}"
        raise UsageError(f"cannot read {path}: {error.strerror}; {hint}") from error
    except msgspec.MsgspecError as error:
        hint = f"write it again: severance check {run_dir}"
        raise UsageError(f"{path} is no verdict: {error}; {hint}") from error


def compare(
    first: Verdict, second: Verdict, before: str, after: str, max_ratio: float | None = None
) -> Comparison:
    """``max_ratio`` None: figures are shown and not judged."""
    checks = tuple(_changes(first, second))
    figures = tuple(_figures(first, second))
    return Comparison(
        schema=COMPARE_SCHEMA,
        before=before,
        after=after,
        exit_codes=(first.exit_code, second.exit_code),
        checks=checks,
        figures=figures,
        regressions=tuple(_regressions(first, second, checks, figures, max_ratio)),
    )


def _changes(first: Verdict, second: Verdict) -> Iterator[CheckChange]:
    was = {check.id: check for check in first.checks}
    now = {check.id: check for check in second.checks}
    for check_id in dict.fromkeys([*was, *now]):
        change = _change(was.get(check_id), now.get(check_id))
        if change is not None:
            yield change


def _change(was: CheckResult | None, now: CheckResult | None) -> CheckChange | None:
    kind = _kind(was, now)
    one = now or was
    if kind is None or one is None:
        return None
    return CheckChange(
        id=one.id,
        change=kind,
        before=was.status if was else None,
        after=now.status if now else None,
        observed=now.observed if now else "the second run has no such check",
    )


def _kind(was: CheckResult | None, now: CheckResult | None) -> Change | None:
    if was is None:
        return Change.NEW
    if now is None:
        return Change.GONE
    before, after = _BEST_FIRST.index(was.status), _BEST_FIRST.index(now.status)
    if before == after:
        is_less = now.examined < was.examined / 2
        return Change.FEWER if is_less and now.status is CheckStatus.PASS else None
    return Change.BETTER if after < before else Change.WORSE


def _regressions(
    first: Verdict,
    second: Verdict,
    checks: tuple[CheckChange, ...],
    figures: tuple[Figure, ...],
    max_ratio: float | None,
) -> Iterator[str]:
    if second.exit_code != ExitCode.PASSED and first.exit_code == ExitCode.PASSED:
        yield f"the exit code was 0 and is {second.exit_code}: {second.reason}"
    for change in checks:
        is_bad = change.after not in (None, CheckStatus.PASS, CheckStatus.UNOBSERVABLE)
        if change.change is Change.WORSE or (change.change is Change.NEW and is_bad):
            yield f"{change.id} is {change.after} (was {change.before or 'not there'})"
        elif change.change is Change.GONE and change.before is CheckStatus.PASS:
            yield f"{change.id} passed and is gone"
    for figure in figures if max_ratio is not None else ():
        ratio = figure.ratio
        if ratio is not None and max_ratio is not None and ratio > max_ratio:
            yield f"{figure.name} grew {ratio:.2f} x (at most {max_ratio:g} x)"


def _single(verdict: Verdict) -> dict[str, float | None]:
    """Figures of a whole run."""
    aborts, bystanders, router = verdict.aborts, verdict.bystanders, verdict.router
    coverage = verdict.coverage
    return {
        "requests not completed, %": _share_lost(verdict),
        "abort seen p50, ms": aborts.act_to_seen_ms.p50,
        "abort seen p99, ms": aborts.act_to_seen_ms.p99,
        "abort released p50, ms": aborts.received_to_released_ms.p50,
        "abort released p99, ms": aborts.received_to_released_ms.p99,
        "wasted tokens an abort": aborts.wasted_tokens / aborts.count if aborts.count else None,
        "bystanders' TTFT p95, ms": bystanders.ttft_p95_ms.bystanders if bystanders else None,
        "bystanders' ITL p95, ms": bystanders.itl_p95_ms.bystanders if bystanders else None,
        "router p99 a request, ms": router.ms.p99 if router else None,
        "router retries": float(router.retries) if router else None,
        "cases exempted": float(coverage.exempted) if coverage else None,
    }


def _figures(first: Verdict, second: Verdict) -> Iterator[Figure]:
    old_figures = _single(first)
    for name, after in _single(second).items():
        yield Figure(name=name, before=old_figures[name], after=after)
    then = {fault.id: fault for fault in first.faults}
    for fault in second.faults:
        old = then.get(fault.id)
        pairs = {
            "heal": (old.heal_ms if old else None, fault.heal_ms),
            "first success": (old.first_success_ms if old else None, fault.first_success_ms),
            "goodput back": (old.goodput_back_ms if old else None, fault.goodput_back_ms),
        }
        for name, (before, now) in pairs.items():
            yield Figure(name=f"{fault.id}: {name}, ms", before=before, after=now)


def _share_lost(verdict: Verdict) -> float | None:
    """Of the requests that their client did not give up."""
    counts = verdict.requests
    wanted = counts.total - sum(counts.aborted.values())
    return 100 * (wanted - counts.completed) / wanted if wanted else None


def render(comparison: Comparison) -> str:
    """For people: what changed first, then the figures."""
    codes = comparison.exit_codes
    lines = [f"{comparison.before} (exit code {codes[0]}) -> {comparison.after} ({codes[1]})"]
    for one in comparison.checks:
        lines.append(f"  {one.change:<7} {one.id}: {one.before or 'none'} -> {one.after or 'none'}")
        if one.change is not Change.BETTER:
            lines.append(f"          {one.observed}")
    if not comparison.checks:
        lines.append("  no check changed")
    width = max((len(figure.name) for figure in comparison.figures), default=0)
    for figure in comparison.figures:
        ratio = "" if figure.ratio is None else f"  {figure.ratio:.2f} x"
        before, after = _number(figure.before), _number(figure.after)
        lines.append(f"  {figure.name:<{width}}  {before:>10}  {after:>10}{ratio}")
    lines += [f"REGRESSION  {text}" for text in comparison.regressions] or ["no regression"]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"
