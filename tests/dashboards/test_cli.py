"""The commands as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_report_writes_both_files(severance, builder) -> None:
    run = builder.complete()
    done = severance("report", str(run))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [str(run / "report.html"), str(run / "junit.xml")]
    assert (run / "report.html").stat().st_size > 10_000


def test_report_of_a_run_that_is_not_judged(severance, builder) -> None:
    run = builder.complete()
    (run / "verdict.json").unlink()
    done = severance("report", str(run))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [str(run / "report.html")]
    assert f"severance check {run}" in done.stderr


@pytest.mark.parametrize("command", [("report",), ("export", "--format", "jaeger")])
@pytest.mark.parametrize("case", ["missing", "file", "empty"])
def test_no_run(severance, tmp_path: Path, command: tuple[str, ...], case: str) -> None:
    paths = {"missing": tmp_path / "none", "file": tmp_path / "file", "empty": tmp_path}
    (tmp_path / "file").write_text("x")
    done = severance(*command, str(paths[case]))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"severance {command[0]}: RUN {paths[case]}: ")
    assert "severance run SCENARIO" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_report_into_a_directory_that_takes_no_file(severance, builder) -> None:
    run = builder.complete()
    (run / "report.html").mkdir()
    done = severance("report", str(run))
    assert done.returncode == 1
    assert "report.html" in done.stderr
    assert "Traceback" not in done.stderr


def test_export_to_stdout_and_to_a_file(severance, builder, tmp_path: Path) -> None:
    run = builder.complete()
    printed = severance("export", str(run), "--format", "otlp", "--where", "rid=load-7-0001")
    assert (printed.returncode, printed.stderr) == (0, "")
    out = tmp_path / "one.json"
    written = severance(
        "export", str(run), "--format", "otlp", "--where", "rid=load-7-0001", "--out", str(out)
    )
    assert written.returncode == 0
    assert "1 traces" in written.stderr
    assert json.loads(out.read_bytes()) == json.loads(printed.stdout)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("--format", "zipkin"), 2, "invalid choice"),
        ((), 2, "--format"),
        (("--format", "otlp", "--where", "rid"), 2, "not key=value"),
        (("--format", "otlp", "--where", "pd.romm=1"), 2, "did you mean pd.room"),
        (("--format", "otlp", "--where", "rid=none"), 1, "no span has this value"),
        (("--format", "otlp", "--out", "/proc/no/file"), 1, "cannot write /proc/no/file"),
    ],
)
def test_export_usage(severance, builder, argv: tuple[str, ...], code: int, said: str) -> None:
    done = severance("export", str(builder.complete()), *argv)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_export_into_a_closed_pipe(command: str, builder) -> None:
    run = builder.complete()
    exporting = subprocess.Popen(
        [sys.executable, "-c", command, "export", str(run), "--format", "jaeger"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    exporting.stdout.close()
    err = exporting.stderr.read()
    exporting.stderr.close()
    exporting.wait(timeout=20)
    assert err == ""


@pytest.mark.parametrize("name", ["spanstore", "report", "export"])
def test_help_is_complete(severance, name: str) -> None:
    done = severance(name, "--help")
    assert done.returncode == 0
    words = {
        "spanstore": ("--db", "--forward", "SIGTERM"),
        "report": ("RUN", "junit.xml"),
        "export": ("--where", "--out", "jaeger", "pd.abort.reason=peer_dead"),
    }
    for word in words[name]:
        assert word in done.stdout


def test_cli_module_is_light() -> None:
    code = (
        "import sys, dashboards.cli\n"
        "heavy = {'msgspec', 'sqlite3', 'opentelemetry', 'google', 'http.server', 'torch', 'locust'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
