"""`list`, `validate`, `schema` and `run --dry-run`: what they say, and that nothing is started."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from chaos.cli import add_commands
from chaos.codes import ExitCode
from chaos.scenario_files import SHIPPED
from chaos.schema import scenario_schema

GOOD = """
name: one
variables: {cut_s: 3}
load: {duration_s: 20}
method:
  - at_s: 2
    fault: {kind: link, mode: stall, links: ["kv:*"], for_s: "${cut_s}"}
"""


def command(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(dest="command"))
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


def write(folder: Path, name: str, text: str = GOOD) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def shipped() -> list[Path]:
    return sorted(SHIPPED.rglob("*.yaml"))


def test_validate_names_each_bad_file_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "bad", GOOD.replace("stall", "stal"))
    write(tmp_path, "good")
    assert command("validate", str(tmp_path)) == ExitCode.USAGE
    said = capsys.readouterr().out
    assert "bad.yaml: method[0].fault.mode" in said
    assert "1 of 2 scenario files are good" in said
    assert command("validate", str(tmp_path / "good.yaml"), "--set", "cut_s=1") == 0
    assert command("validate", str(tmp_path / "good.yaml"), "--set", "cut_s=99") == ExitCode.USAGE


@pytest.mark.parametrize("path", ["absent.yaml", "empty"])
def test_nothing_to_validate_is_usage(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert command("validate", str(tmp_path / path)) == ExitCode.USAGE
    assert "is no scenario file and no folder" in capsys.readouterr().err


def test_list_shows_the_shipped_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("list") == ExitCode.PASSED
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(shipped())
    assert any(line.startswith("pd-partition.yaml") and "3 faults" in line for line in lines)


def test_dry_run_says_what_would_happen_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEVERANCE_TOXIPROXY", str(tmp_path / "absent"))  # it would be missed
    path = str(write(tmp_path, "one"))
    out = tmp_path / "run"
    assert command("run", path, "--dry-run", "--set", "cut_s=4", "--out", str(out)) == 0
    said = capsys.readouterr().out
    assert "2.0  stall kv:p0-d0" in said
    assert "6.0  healed" in said
    assert not out.exists()


def test_a_run_without_out_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("run", str(write(tmp_path, "one"))) == ExitCode.USAGE
    assert "--out is missing" in capsys.readouterr().err


def test_the_schema_takes_what_we_take() -> None:
    schema = json.loads(scenario_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in shipped():
        assert not list(validator.iter_errors(yaml.safe_load(path.read_text()))), path
    validator.validate(yaml.safe_load(GOOD))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stall", "stal"),
        ("at_s: 2", "at_s: -2"),
        ("kv:*", "10.0.0.1:80"),
        ("for_s", "fors"),
        ("duration_s: 20", "duration_s: long"),
        ("kind: link", "kind: lnk"),
        ("${cut_s}", "${}"),
    ],
)
def test_the_schema_refuses_what_we_refuse(old: str, new: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(scenario_schema()))
    assert list(validator.iter_errors(yaml.safe_load(GOOD.replace(old, new))))
