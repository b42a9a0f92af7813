"""Shipped scenarios: each is sound, says what it is about, and asks for evidence that its load can give."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import yaml

from chaos.oracle.harmless_cuts import is_short
from chaos.oracle.plan import read_plan
from chaos.oracle.recovery import MIN_DUE
from chaos.preview import about_s, preview, summary
from chaos.scenario import Scenario, dump_scenario, load_scenario
from chaos.scenario_files import SHIPPED, find_scenarios
from chaos.schema import scenario_schema

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"
PATHS = find_scenarios(SHIPPED)
# Scenarios of the oracle's own suite are bound to known bugs and judged by its tests.
MINE = [path for path in PATHS if path.parent.name not in ("regress", "selftest")]
STANDARD_S, SHORT_S = 300, 120


def label(path: Path) -> str:
    return path.relative_to(SHIPPED).with_suffix("").as_posix()


every = pytest.mark.parametrize("path", PATHS, ids=label)
every_own = pytest.mark.parametrize("path", MINE, ids=label)


def document_of(path: Path) -> dict[str, object]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


@every
def test_it_validates_against_the_published_schema(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(scenario_schema()))
    assert list(validator.iter_errors(document_of(path))) == []


@every
def test_it_has_a_seed_a_name_and_no_address(path: Path) -> None:
    document, text = document_of(path), path.read_text(encoding="utf-8")
    assert isinstance(document.get("seed"), int), "a run must be repeatable"
    expected = path.stem if path.parent.name in ("scenarios", "selftest", "long") else None
    assert document["name"] == (expected or f"{path.parent.name}-{path.stem}")
    assert not re.search(r"localhost|\d+\.\d+\.\d+\.\d+|://|\bpid\b", text)


def test_no_two_share_a_name() -> None:
    documents = [document_of(path) for path in PATHS]
    names = [document["name"] for document in documents]
    assert len(set(map(str, names))) == len(PATHS)


@every_own
def test_its_line_in_the_list_says_something(path: Path) -> None:
    line = summary(load_scenario(path))
    assert 40 <= len(line) <= 140, line
    assert len({summary(load_scenario(other)) for other in MINE}) == len(MINE)


@every_own
def test_every_variable_is_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    variables = document_of(path).get("variables", {})
    assert isinstance(variables, dict)
    assert [name for name in variables if f"${{{name}}}" not in text] == []


@every_own
def test_the_page_has_a_section_about_it(path: Path) -> None:
    headings = re.findall(r"^#+ .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert any(f"`{label(path)}`" in heading for heading in headings), label(path)


def test_the_page_is_about_nothing_that_is_not_there() -> None:
    headings = re.findall(r"^#+ .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = [name for heading in headings for name in re.findall(r"`([^`]+)`", heading)]
    assert set(named) == set(map(label, MINE))


@every
def test_a_dry_run_shows_every_fault(path: Path) -> None:
    scenario = load_scenario(path)
    shown = "\n".join(preview(scenario))
    assert shown.count("healed") == len(scenario.method)


@every_own
def test_the_load_gives_each_heal_requests_to_be_judged_by(path: Path) -> None:
    """Half of the asked rate is enough: a slower machine measures less capacity and asks for less."""
    scenario = load_scenario(path)
    if not scenario.method:
        return
    patient = 1 - scenario.load.aborts.share
    rate = (scenario.load.max_request_rate or 0) / 2 * patient
    first_s = scenario.method[0].at_s
    assert first_s * rate >= MIN_DUE, "before the first fault"
    ends = [step.at_s + step.fault.hold_s for step in scenario.method]
    begins = [*(step.at_s for step in scenario.method[1:]), scenario.load.duration_s]
    for end_s, begin_s in zip(ends, begins, strict=True):
        room_s = min(begin_s - end_s, scenario.expect.recovery_window_s)
        assert room_s * rate >= MIN_DUE, f"after the heal at {end_s:g} s"


@every_own
def test_it_asks_for_far_fewer_aborts_than_are_planned(path: Path) -> None:
    scenario = load_scenario(path)
    load, expect = scenario.load, scenario.expect
    if not expect.min_aborts or load.max_request_rate is None:
        assert not expect.min_per_kind
        return
    planned = load.max_request_rate * load.duration_s * load.aborts.share
    weights = {mix.kind: 0.0 for mix in load.aborts.mix}
    for mix in load.aborts.mix:
        weights[mix.kind] += mix.weight
    rarest = planned * min(weights.values()) / sum(weights.values())
    assert expect.min_aborts <= planned * 0.6
    assert expect.min_per_kind <= rarest * 0.6
    assert not expect.min_per_kind or set(weights) == {"disconnect", "rid", "deadline"}


@pytest.mark.parametrize("name", ["blip", "standard/blip"])
def test_a_blip_is_judged_as_harmless_whatever_its_faults_permit(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(SHIPPED / f"{name}.yaml")
    dump_scenario(scenario, tmp_path / "scenario.resolved.yaml")
    plan = read_plan(tmp_path / "scenario.resolved.yaml")
    assert [step.fault.mode for step in plan.method if not is_short(plan, step.fault)] == []
    assert scenario.load.aborts.share == 0


def test_the_blip_has_every_full_cut_on_both_links() -> None:
    modes = {
        (step.fault.mode, kind)
        for step in load_scenario(SHIPPED / "blip.yaml").method
        for kind in ("kv", "control")
        if kind in str(step.fault)
    }
    cuts = {"stall", "blackhole", "refuse", "reset"}
    assert modes >= {(mode, kind) for mode in cuts for kind in ("kv", "control")}


def total_s(folder: str) -> float:
    return sum(about_s(load_scenario(path)) for path in (SHIPPED / folder).glob("*.yaml"))


def test_sets_fit_their_time() -> None:
    assert 0 < total_s("standard") <= STANDARD_S
    assert 0 < total_s("short") <= SHORT_S


def test_the_standard_set_has_faults_of_many_kinds() -> None:
    scenarios = [load_scenario(path) for path in (SHIPPED / "standard").glob("*.yaml")]
    modes = {step.fault.mode.value for scenario in scenarios for step in scenario.method}
    assert modes >= {"stall", "blackhole", "refuse", "reset", "one_way", "latency", "kill", "pause"}


def test_steps_of_the_soak_do_not_depend_on_the_machine() -> None:
    first, second = (load_scenario(SHIPPED / "long" / "long-soak.yaml") for _ in range(2))
    assert first.method == second.method
    assert len(first.method) == 24
    assert all(a.at_s < b.at_s for a, b in pairwise(first.method))


def test_the_router_runs_with_its_defaults() -> None:
    scenario: Scenario = load_scenario(SHIPPED / "router-defaults.yaml")
    assert scenario.deployment.router.retries
    assert scenario.deployment.router.circuit_breaker
