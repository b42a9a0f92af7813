"""The top of the page: did the run pass, and if not, why not."""

from __future__ import annotations

from chaos.verdict import CheckStatus, RunStatus, Verdict
from dashboards.report.html import Markup, el
from dashboards.report.parts import chip
from dashboards.run_dir import Gap, Run, started_at

_TONES = {
    RunStatus.PASSED: "good",
    RunStatus.FAILED: "bad",
    RunStatus.RESIDUE: "bad",
    RunStatus.HALTED: "warn",
    RunStatus.INVALID: "warn",
}
_MEANING = {
    RunStatus.PASSED: "Every check passed.",
    RunStatus.FAILED: "The deployment broke at least one promise.",
    RunStatus.RESIDUE: "Something was left behind after the run.",
    RunStatus.HALTED: "A guard stopped the run.",
    RunStatus.INVALID: "The run proves nothing: a fault or a check had too little to go by.",
}


def headline(run: Run) -> Markup:
    body = _judged(run.verdict) if run.verdict else _unjudged(run)
    return el(
        "header", el("p", _eyebrow(run), class_="eyebrow"), *body, _cut_short(run), *_gaps(run)
    )


def title_of(run: Run) -> str:
    scenario = run.verdict.scenario if run.verdict else run.info.scenario if run.info else "run"
    status = run.verdict.status if run.verdict else "not judged"
    return f"{scenario}: {status}"


def _eyebrow(run: Run) -> str:
    names = [run.verdict.scenario if run.verdict else run.info.scenario if run.info else ""]
    if run.info:
        started = started_at(run.info)
        names += [run.info.run_id, f"{started:%Y-%m-%d %H:%M:%S} UTC" if started else ""]
    return " · ".join(name for name in (*names, run.path.name) if name)


def _judged(verdict: Verdict) -> list[Markup]:
    reason = verdict.reason or _MEANING[verdict.status]
    return [
        el("h1", verdict.status, class_=_TONES[verdict.status]),
        el("p", reason, class_="reason"),
        el("p", *_facts(verdict), class_="facts"),
        *_residue(verdict),
    ]


def _facts(verdict: Verdict) -> list[Markup]:
    facts = [
        f"exit code {verdict.exit_code}",
        f"seed {verdict.seed}",
        f"{verdict.duration_s:.1f} s",
    ]
    tones = {
        CheckStatus.FAIL: "bad",
        CheckStatus.UNKNOWN: "warn",
        CheckStatus.REPORTED: "mute",
        CheckStatus.UNOBSERVABLE: "mute",
        CheckStatus.PASS: "good",
    }
    counts = {status: sum(one.status is status for one in verdict.checks) for status in tones}
    chips = [chip(f"{counts[one]} {one}", tone) for one, tone in tones.items() if counts[one]]
    return [*(el("span", fact) for fact in facts), *chips]


def _residue(verdict: Verdict) -> list[Markup]:
    if not verdict.residue:
        return []
    items = (el("li", el("code", item)) for item in verdict.residue)
    return [el("div", el("b", "Left behind"), el("ul", items), class_="callout bad")]


def _unjudged(run: Run) -> list[Markup]:
    return [
        el("h1", "not judged", class_="mute"),
        el(
            "p",
            "There is no verdict for this run. To judge it: ",
            el("code", f"severance check {run.path}"),
            class_="reason",
        ),
    ]


def _cut_short(run: Run) -> Markup | None:
    """Said beside the verdict, since a verdict over half a run is easily misread."""
    if run.info is None or (run.info.finished and not run.info.interrupted):
        return None
    how = "interrupted" if run.info.interrupted else "cut short before its end"
    guard = f" (halted by {run.info.halted_by})" if run.info.halted_by else ""
    return el(
        "p",
        f"The run was {how}{guard}; what follows is what it had written by then.",
        class_="callout warn",
    )


def _gaps(run: Run) -> list[Markup]:
    if not run.gaps:
        return []
    items = (el("li", el("code", gap.file), _sentence(gap)) for gap in run.gaps)
    return [el("div", el("b", "Not in this report"), el("ul", items), class_="callout warn")]


def _sentence(gap: Gap) -> str:
    return f" {gap.why}: without it, no {gap.loses}."
