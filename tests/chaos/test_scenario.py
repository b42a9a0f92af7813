"""Scenario files: what is wrong is named by field, with what to use instead."""

from __future__ import annotations

from pathlib import Path

import pytest

import chaos
from chaos.errors import ScenarioError
from chaos.scenario import dump_scenario, load_scenario

SHIPPED = Path(chaos.__file__).parent / "scenarios"
GOOD = """
name: one
load: {duration_s: 20}
method:
  - at_s: 2
    fault: {kind: link, mode: stall, links: ["kv:*"], for_s: 3}
  - at_s: 9
    fault: {kind: process, mode: kill, worker: d0, restart_after_s: 1}
guards:
  - {kind: stuck_request, older_than_s: 20}
"""


def load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return load_scenario(path)


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_files_load_and_survive_a_round_trip(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    dump_scenario(scenario, tmp_path / "resolved.yaml")
    assert load_scenario(tmp_path / "resolved.yaml") == scenario


def test_shipped_files_name_no_address() -> None:
    for path in SHIPPED.glob("*.yaml"):
        assert "127.0.0.1" not in path.read_text()
        assert "localhost" not in path.read_text()


def test_the_seed_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(GOOD)
    assert load_scenario(path, seed=77).seed == 77


@pytest.mark.parametrize(
    ("old", "new", "field", "hint"),
    [
        ("mode: stall", "mode: stal", "method[0].fault.mode", "use one of stall, blackhole"),
        ("kind: process", "kind: proc", "method[1].fault.kind", "use one of link, process"),
        ("for_s: 3", "fors: 3", "method[0].fault.fors", "use one of kind, mode, links, for_s"),
        ("worker: d0", "worker: d7", "method[1].fault.worker", "use one of p0, d0"),
        ("worker: d0", "worker: decode", "method[1].fault.worker", "d0, d1"),
        ("worker: d0", "pid: 4242", "method[1].fault.pid", "unknown field"),
        ('"kv:*"', '"127.0.0.1:80"', "method[0].fault.links[0]", "KIND:PAIR"),
        ('"kv:*"', '"kv:p0-d3"', "method[0].fault.links[0]", "kv:p0-d0"),
        ("at_s: 9", "at_s: 3", "method[1].at_s", "cannot be on together"),
        ("at_s: 9", "at_s: 30", "method[1].at_s", "after the load"),
        ("at_s: 9", "at_s: nine", "method[1].at_s", "got `str`"),
        ("at_s: 9", "at_s: -9", "method[1].at_s", ">= 0"),
        (
            "kind: stuck_request",
            "kind: stuck",
            "guards[0].kind",
            "use one of stuck_request, no_data",
        ),
        ("name: one", "nam: one", "nam", "use one of name, schema"),
        ("duration_s: 20", "duration_s: 0", "load.duration_s", "> 0"),
        ("{duration_s: 20}", "{prompts: {isl_min: 9000}}", "load.prompts.isl_min", "larger"),
        (
            "guards:",
            "expect: {report_only: [recovery]}\nguards:",
            "expect.report_only",
            "judge the workers",
        ),
        (
            "guards:",
            "expect: {report_only: [answers]}\nguards:",
            "expect.report_only[0]",
            "",
        ),
        (
            "{duration_s: 20}",
            "{duration_s: 20, aborts: {mix: [{kind: deadline, at: decode, after_ms: [1, 2]}]}}",
            "load.aborts.mix[0].at",
            "kind rid",
        ),
        (
            "{duration_s: 20}",
            "{prompts: {isl_max: 90000}}",
            "deployment.worker.max_total_tokens",
            "may need 90064",
        ),
        (
            "{duration_s: 20}",
            "{duration_s: 20, aborts: {mix: [{kind: rid}]}}",
            "load.aborts.mix[0]",
            "after_ms and after_tokens",
        ),
    ],
)
def test_errors_name_the_field(tmp_path: Path, old: str, new: str, field: str, hint: str) -> None:
    assert old in GOOD
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.field == field
    assert hint in caught.value.problem


def test_a_missing_name_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^name: is required$"):
        load(tmp_path, GOOD.replace("name: one", ""))


@pytest.mark.parametrize("text", ["- a list", "a: [", "", "just words"])
def test_what_is_no_scenario_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(ScenarioError, match=r"YAML|holds no scenario"):
        load(tmp_path, text)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"cannot read .*absent.yaml"):
        load_scenario(tmp_path / "absent.yaml")
