"""Variables of a scenario: replaced with their own types, and every mistake is named by field."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ScenarioError, UsageError
from chaos.scenario import dump_scenario, load_scenario
from chaos.variables import parse_settings, substitute

FILE = """
name: one
description: cuts ${links} for ${cut_s} s
variables: {cut_s: 3, links: "kv:*", mode: stall}
load: {duration_s: 20}
method:
  - at_s: 2
    fault: {kind: link, mode: "${mode}", links: ["${links}"], for_s: "${cut_s}"}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "one.yaml"
    file.write_text(FILE)
    return file


def test_values_keep_their_types_and_texts_are_filled(path: Path) -> None:
    scenario = load_scenario(path)
    (step,) = scenario.method
    assert step.fault.hold_s == 3
    assert scenario.description == "cuts kv:* for 3 s"


def test_the_command_line_wins(path: Path) -> None:
    scenario = load_scenario(path, settings=parse_settings(["cut_s=1.5", "links=control:*"]))
    assert scenario.method[0].fault.hold_s == 1.5
    assert scenario.variables["links"] == "control:*"


def test_the_resolved_file_is_the_same_scenario(path: Path, tmp_path: Path) -> None:
    scenario = load_scenario(path, settings={"cut_s": 1.5})
    dump_scenario(scenario, tmp_path / "resolved.yaml")
    assert load_scenario(tmp_path / "resolved.yaml") == scenario
    method = yaml.safe_load((tmp_path / "resolved.yaml").read_text())["method"]
    assert "${" not in str(method)


@pytest.mark.parametrize(
    ("old", "new", "field", "hint"),
    [
        ("${cut_s}", "${cut}", "description", "unknown variable cut, the file has: cut_s, links"),
        ('for_s: "${cut_s}"', 'for_s: "${x}"', "method[0].fault.for_s", "unknown variable x"),
        ("cut_s: 3", "cut_s: [3]", "variables.cut_s", "must be a number"),
        ("cut_s: 3", "cut-s: 3", "variables.cut-s", "letters, digits"),
        ("cut_s: 3", "cut_s: long", "method[0].fault.for_s", "got `str`"),
        ("mode: stall", "mode: stal", "method[0].fault.mode", "use one of stall"),
    ],
)
def test_a_mistake_is_named(path: Path, old: str, new: str, field: str, hint: str) -> None:
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert caught.value.field == field
    assert hint in caught.value.problem


@pytest.mark.parametrize("setting", ["cut_s", "=3", "cut_s=[1]", "cut_s=", "cut_s={"])
def test_a_setting_that_is_none_is_usage(setting: str, path: Path) -> None:
    if setting == "cut_s={":  # no YAML: a text, which then is no number
        with pytest.raises(ScenarioError, match="got `str`"):
            load_scenario(path, settings=parse_settings([setting]))
        return
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse_settings([setting])


def test_a_setting_for_no_variable_is_usage(path: Path) -> None:
    with pytest.raises(UsageError, match="no such variable, it has: cut_s"):
        load_scenario(path, settings={"cutt_s": 2})


@given(st.text(alphabet="${}ab_ ", max_size=20))
def test_text_without_a_reference_is_left_alone(text: str) -> None:
    try:
        replaced = substitute({"x": text}, {"a": "1"})
    except ScenarioError:
        assert "${" in text
        return
    assert isinstance(replaced, dict)
    assert replaced["x"] == text.replace("${a}", "1")
