"""The doctor finds what is there and says how to get what is not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from chaos import tools
from chaos.doctor import examine, missing, print_findings
from chaos.errors import ToolMissing


def test_this_machine_can_run(toxiproxy_binary: Path) -> None:
    findings = examine(fix=False)
    assert missing(findings) == []
    assert {"toxiproxy", "torch", "sglang-router", "ports", "open files"} <= {
        finding.what for finding in findings
    }


def test_the_version_is_read_from_the_binary(toxiproxy_binary: Path) -> None:
    if tools.find_go() is None:
        pytest.skip("no Go here to read it with")
    assert tools.version_of(toxiproxy_binary) == tools.TOXIPROXY_VERSION


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEVERANCE_TOXIPROXY", str(tmp_path / "absent"))
    with pytest.raises(ToolMissing, match=r"SEVERANCE_TOXIPROXY is .*absent"):
        tools.find_toxiproxy()
    [finding] = missing(examine(fix=False))
    assert finding.what == "toxiproxy"
    shown = io.StringIO()
    print_findings([finding], Console(file=shown, width=200))
    assert "missing" in shown.getvalue()
    assert "unset it" in shown.getvalue()


def test_the_order_is_variable_then_path_then_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def program(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    named, on_path = program(tmp_path / "named"), program(tmp_path / "bin" / "toxiproxy-server")
    ours = program(tmp_path / "ours" / "toxiproxy-server")
    monkeypatch.setattr(tools, "built_toxiproxy", lambda: ours)
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("SEVERANCE_TOXIPROXY", str(named))
    assert tools.find_toxiproxy() == named
    monkeypatch.delenv("SEVERANCE_TOXIPROXY")
    assert tools.find_toxiproxy() == on_path
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.find_toxiproxy() == ours
    ours.unlink()
    assert tools.find_toxiproxy() is None


@pytest.mark.parametrize(
    ("version", "old"), [("2.4.0", True), ("1.9.9", True), ("2.5.0", False), ("2.12.0", False)]
)
def test_too_old(version: str, old: bool) -> None:
    assert tools.too_old(version) is old
