"""The commands: wrong use is exit code 2 with the next step, before anything starts."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from chaos.cli import add_commands
from chaos.codes import ExitCode
from chaos.scenario import load_scenario

SCENARIO = "name: one\n"


def command(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(dest="command"))
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


def write(tmp_path: Path, text: str = SCENARIO) -> str:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return str(path)


def test_a_wrong_scenario_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, SCENARIO + "lod: {}\n")
    assert command("run", path, "--out", str(tmp_path / "run")) == ExitCode.USAGE
    assert "severance run: lod: unknown field" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_used_out_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "precious").touch()
    assert command("run", write(tmp_path), "--out", str(out)) == ExitCode.USAGE
    assert "is not empty; name a new directory" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["precious"]


def test_an_out_that_is_a_file_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    assert command("run", path, "--out", path) == ExitCode.USAGE
    assert load_scenario(Path(path)).name == "one", "the file is untouched"


def test_a_missing_tool_is_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEVERANCE_TOXIPROXY", str(tmp_path / "absent"))
    assert command("run", write(tmp_path), "--out", str(tmp_path / "run")) == ExitCode.USAGE
    said = capsys.readouterr()
    assert "$SEVERANCE_TOXIPROXY is" in said.out
    assert "severance doctor" in said.err
    assert command("doctor") == 1


def test_an_unknown_regression_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    assert command("run", write(tmp_path), "--out", out, "--regression", "x") == ExitCode.USAGE
    assert "leak_pages_on_chunked_abort" in capsys.readouterr().err


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_wrong_seed_is_usage(tmp_path: Path, seed: str) -> None:
    with pytest.raises(SystemExit) as caught:
        command("run", write(tmp_path), "--out", str(tmp_path / "run"), "--seed", seed)
    assert caught.value.code == ExitCode.USAGE
