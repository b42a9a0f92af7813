"""`summary.md`: the verdict in GitHub's Markdown, also appended to ``$GITHUB_STEP_SUMMARY`` where CI sets it.

What is wrong comes first; what passed is one line that can be opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from chaos.verdict import CheckResult, CheckStatus, FaultVerdict, RunStatus, Verdict
from dashboards.errors import OutputUnwritable

FILE = "summary.md"
VARIABLE = "GITHUB_STEP_SUMMARY"
_ICONS = {
    CheckStatus.FAIL: ":x:",
    CheckStatus.UNKNOWN: ":grey_question:",
    CheckStatus.REPORTED: ":memo:",
    CheckStatus.UNOBSERVABLE: ":see_no_evil:",
    CheckStatus.PASS: ":white_check_mark:",
}
_WORST_FIRST = tuple(_ICONS)
_MAX_EVIDENCE = 5
_MAX_CELL = 300


def write_summary(run_dir: Path, verdict: Verdict) -> Path:
    """Write ``run_dir/summary.md`` and return its path. Raises `OutputUnwritable`."""
    text = render(verdict)
    path = run_dir / FILE
    _put(path, text, "w")
    step = os.environ.get(VARIABLE)
    if step:
        _put(Path(step), f"{text}\n", "a")
    return path


def _put(path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OutputUnwritable(path, error) from error


def render(verdict: Verdict) -> str:
    """The whole page."""
    icon = ":white_check_mark:" if verdict.status is RunStatus.PASSED else ":x:"
    lines = [
        f"## {icon} {_cell(verdict.scenario)}: {verdict.status} (exit code {verdict.exit_code})",
        "",
        f"{_cell(verdict.reason or 'no reason given')}. Seed {verdict.seed},"
        f" {verdict.duration_s:.0f} s.",
        "",
        *_checks(verdict.checks),
        *_faults(verdict.faults),
        *_figures(verdict),
        *(f"- LEFT BEHIND: {_cell(left)}" for left in verdict.residue),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _checks(checks: tuple[CheckResult, ...]) -> Iterable[str]:
    ranked = sorted(checks, key=lambda check: _WORST_FIRST.index(check.status))
    bad = [check for check in ranked if check.status is not CheckStatus.PASS]
    if bad:
        yield from ("| check | status | expected | observed |", "|---|---|---|---|")
        for check in bad:
            yield (
                f"| `{_cell(check.id)}` | {_ICONS[check.status]} {check.status} "
                f"| {_cell(check.expected)} | {_cell(check.observed)}{_evidence(check)} |"
            )
        yield ""
    passed = [check for check in ranked if check.status is CheckStatus.PASS]
    yield f"<details><summary>{len(passed)} of {len(checks)} checks pass</summary>"
    yield ""
    yield from (f"- `{_cell(one.id)}`: {_cell(one.observed)}" for one in passed)
    yield from ("", "</details>", "")


def _evidence(check: CheckResult) -> str:
    """A few of its cases, each with its rid or span."""
    items = check.evidence[:_MAX_EVIDENCE]
    texts = [f"{_cell(one.rid or one.span_id or '')} {_cell(one.value)}".strip() for one in items]
    return "".join(f"<br>{text}" for text in texts)


def _faults(faults: tuple[FaultVerdict, ...]) -> Iterable[str]:
    if not faults:
        return
    yield from (
        "| fault | where | proven | exposed | healed by | heal | first success | goodput back |",
        "|---|---|---|---|---|---|---|---|",
    )
    for one in faults:
        where = _cell(", ".join((*one.links, *one.workers)))
        yield (
            f"| {_cell(one.id)} {_cell(one.mode)} | {where} | {'yes' if one.proven else '**no**'} "
            f"| {one.exposed} | {_cell(one.heal_rung or 'not healed')} | {_ms(one.heal_ms)} "
            f"| {_ms(one.first_success_ms)} | {_ms(one.goodput_back_ms)} |"
        )
    yield ""


def _figures(verdict: Verdict) -> Iterable[str]:
    counts, aborts, router = verdict.requests, verdict.aborts, verdict.router
    yield (
        f"- requests {counts.total}: {counts.completed} completed,"
        f" {sum(counts.aborted.values())} aborted by clients,"
        f" {sum(counts.aborted_server.values())} by servers, {sum(counts.failed.values())} failed"
    )
    yield (
        f"- client aborts {aborts.count}: seen p99 {_ms(aborts.act_to_seen_ms.p99)},"
        f" released p99 {_ms(aborts.received_to_released_ms.p99)},"
        f" {aborts.wasted_tokens} tokens wasted"
    )
    if router is not None:
        yield (
            f"- router: p99 {_ms(router.ms.p99)} a request, {router.retries} retries,"
            f" {router.never_dispatched} never dispatched"
        )
    if verdict.coverage is not None:
        yield f"- coverage: {verdict.coverage.exempted} cases exempted{_blind(verdict)}"


def _blind(verdict: Verdict) -> str:
    coverage = verdict.coverage
    if coverage is None or not coverage.unobservable:
        return ""
    return f"; not observable on this target: {_cell(', '.join(coverage.unobservable))}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} ms"


def _cell(text: str) -> str:
    """One line that neither ends a table cell nor starts a tag, a link or a mark-up."""
    short = " ".join(text.split())
    short = short if len(short) <= _MAX_CELL else f"{short[: _MAX_CELL - 3]}..."
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("`", "'")):
        short = short.replace(raw, safe)
    return short.replace("[", "&#91;").replace("*", "&#42;")
