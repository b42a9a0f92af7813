"""The page: sections in the order in which a reader asks."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from dashboards.errors import OutputUnwritable
from dashboards.report.abort_table import abort_table
from dashboards.report.checks import checks
from dashboards.report.clock import clock_of
from dashboards.report.counts import counts
from dashboards.report.fault_table import fault_table
from dashboards.report.faults import faults_of
from dashboards.report.guards import guards
from dashboards.report.headline import headline, title_of
from dashboards.report.html import Markup, el
from dashboards.report.ledger_chart import ledger_charts
from dashboards.report.requests import requests_of
from dashboards.report.run_facts import run_facts
from dashboards.report.timeline import timeline
from dashboards.report.waterfall import waterfalls
from dashboards.run_dir import Run, load_run

FILE = "report.html"
_CONTENTS = (
    ("checks", "Checks"),
    ("timeline", "Time line"),
    ("requests", "Requests"),
    ("faults", "Faults"),
    ("guards", "Guards"),
    ("aborts", "Aborts"),
    ("ledger", "Ledger"),
    ("waterfalls", "Waterfalls"),
    ("run", "Run"),
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write_report(run_dir: Path) -> Path:
    """Write ``run_dir/report.html`` and return its path. Raises `RunNotFound`, `OutputUnwritable`."""
    return write_page(load_run(run_dir))


def write_page(run: Run) -> Path:
    path = run.path / FILE
    try:
        path.write_text(render(run), encoding="utf-8", errors="replace")
    except OSError as error:
        raise OutputUnwritable(path, error) from error
    return path


def render(run: Run) -> str:
    """The whole page; it loads nothing from anywhere."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", title_of(run)),
        el("style", _asset("report.css")),
    )
    script = el("script", _asset("report.js"))
    body = el("body", el("main", headline(run), _contents(), *_sections(run)), script)
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _sections(run: Run) -> list[Markup]:
    clock = clock_of(run)
    requests, faults = requests_of(run, clock), faults_of(run, clock)
    verdict = run.verdict
    return [
        checks(verdict),
        timeline(requests, faults, run.events, clock),
        counts(requests, verdict.requests if verdict else None),
        fault_table(faults, requests),
        guards(run.events, clock),
        abort_table(requests, verdict.aborts if verdict else None),
        ledger_charts(run.ledger, faults, verdict.ledger if verdict else None, clock),
        waterfalls(requests, run.spans),
        run_facts(run.info),
    ]


def _contents() -> Markup:
    return el("nav", (el("a", name, href=f"#{anchor}") for anchor, name in _CONTENTS))


def _asset(name: str) -> Markup:
    return Markup(resources.files("dashboards").joinpath("templates", name).read_text("utf-8"))
