"""What was run, on what: for whoever wants to run it again."""

from __future__ import annotations

import shlex

from chaos.records import RunInfo
from dashboards.report.html import Markup, el
from dashboards.report.parts import DASH, note, row, section, table


def run_facts(info: RunInfo | None) -> Markup:
    if info is None:
        return section(
            "Run", "run", note("There is no run.json, so how this was run is not known.")
        )
    facts = {
        "run": info.run_id,
        "scenario": info.scenario,
        "seed": str(info.seed),
        "regression": info.regression or "none",
        "command": shlex.join(info.argv),
        "host": info.host,
        "commit": info.commit or DASH,
        "measured capacity": _capacity(info),
        "request rate": DASH if info.request_rate is None else f"{info.request_rate:.2f} per s",
        "router flags": shlex.join(info.router_flags) or DASH,
        **{f"version of {name}": version for name, version in info.versions.items()},
        **info.environment,
    }
    rows = (
        row(el("td", name, class_="name"), el("td", el("code", value)))
        for name, value in facts.items()
    )
    body = table(("what", "value"), rows)
    return section(
        "Run", "run", el("details", el("summary", "seed, versions, flags, environment"), body)
    )


def _capacity(info: RunInfo) -> str:
    if info.capacity_req_per_s is None and info.capacity_tokens_per_s is None:
        return DASH
    requests = (
        DASH if info.capacity_req_per_s is None else f"{info.capacity_req_per_s:.2f} requests/s"
    )
    tokens = (
        DASH
        if info.capacity_tokens_per_s is None
        else f"{info.capacity_tokens_per_s:,.0f} tokens/s"
    )
    return f"{requests}, {tokens}"
