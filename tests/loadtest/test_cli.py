"""The command line: wrong usage is named, exit 2, and nothing heavy is loaded to say so."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.cli import add_commands, config_of, load
from loadtest.config import LoadConfig, Mode
from loadtest.history import AbortKind

ROOT = Path(__file__).resolve().parents[2]
BASE = ("load", "--url", "http://127.0.0.1:1", "--out", "nowhere")


def parse(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(required=True))
    return parser.parse_args([*BASE, *options])


def config(*options: str) -> LoadConfig:
    return config_of(parse(*options))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (("--url", "127.0.0.1:80"), "--url"),
        (("--url", "https://host"), "--url"),
        (("--url", "http://host:99999"), "--url"),
        (("--abort-url", "d0"), "--abort-url"),
        (("--abort-url", "router=http://host:1"), "--abort-url"),
        (("--request-rate", "0"), "--request-rate"),
        (("--request-rate", "nan"), "--request-rate"),
        (("--duration", "-1"), "--duration"),
        (("--burstiness", "0"), "--burstiness"),
        (("--num-prompts", "0"), "--num-prompts"),
        (("--concurrency", "0"), "--concurrency"),
        (("--isl-min", "10", "--isl-max", "5"), "--isl-min"),
        (("--isl-min", "0"), "--isl-min"),
        (("--isl-mean", "9999"), "--isl-mean"),
        (("--osl-min", "70"), "--osl-min"),
        (("--abort-share", "40"), "--abort-share"),
        (("--abort-mix", "missing.json"), "--abort-mix"),
        (("--request-cancellation-rate", "101"), "--request-cancellation-rate"),
        (
            ("--request-cancellation-rate", "10", "--abort-share", "0.1"),
            "--request-cancellation-rate",
        ),
        (("--goodput", "ttft"), "--goodput"),
        (("--goodput", "speed:3"), "--goodput"),
        (("--mode", "replay"), "--requests"),
        (("--mode", "replay", "--requests", "missing.jsonl"), "--requests"),
        (("--input-file", "missing.csv"), "--input-file"),
        (("--otlp-traces-endpoint", "collector"), "--otlp-traces-endpoint"),
        (("--out", __file__), "--out"),
    ],
)
def test_wrong_usage_exits_2_and_names_the_flag(
    options: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load(parse(*options)) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"severance load: {flag}: ")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("kind", "urls"), [("disconnect", ()), ("rid", ()), ("rid", ("prefill=http://127.0.0.1:9",))]
)
def test_an_abort_of_one_half_needs_kind_rid_and_a_worker_of_that_role(
    kind: str, urls: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mix.json"
    path.write_text(json.dumps([{"kind": kind, "at": "decode", "after_ms": [5, 9]}]))
    flags = [text for url in urls for text in ("--abort-url", url)]
    assert load(parse("--abort-mix", str(path), *flags)) == 2
    assert capsys.readouterr().err.startswith("severance load: --abort-mix: ")


def test_defaults_and_names_of_other_tools() -> None:
    plain = config()
    assert plain.mode is Mode.OPEN
    assert plain.abort_urls.all == (plain.url,)
    assert plain.shapes.aborts.share == 0
    other = config(
        *("--benchmark-duration", "9", "--request-count", "8", "--arrival-smoothness", "2"),
        *(
            "--random-seed",
            "5",
            "--request-timeout-seconds",
            "7",
            "--goodput",
            "ttft:500",
            "e2el:900",
        ),
        *("--request-cancellation-rate", "25", "--request-cancellation-delay", "0.3"),
    )
    assert (other.duration_s, other.num_prompts, other.arrivals.burstiness) == (9, 8, 2)
    assert (other.seed, other.request_timeout_s, other.goodput.ttft) == (5, 7, 500)
    [choice] = other.shapes.aborts.choices
    assert (other.shapes.aborts.share, choice.kind) == (0.25, AbortKind.DISCONNECT)
    assert choice.after_ms == (300, 300)


def test_only_the_open_load_aborts() -> None:
    assert config("--abort-share", "0.5").shapes.aborts.share == 0.5
    assert config("--abort-share", "0.5", "--mode", "capacity").shapes.aborts.share == 0


def test_help_and_checks_load_nothing_heavy() -> None:
    code = "import sys, loadtest.cli; sys.exit(any(m in sys.modules for m in ('gevent', 'locust')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=20).returncode == 0


def test_help_tells_every_option_and_exit_code() -> None:
    argv = [sys.executable, "-m", "loadtest", "load", "--help"]
    text = subprocess.run(
        argv, cwd=ROOT, timeout=20, capture_output=True, text=True, check=True
    ).stdout
    for word in ("--abort-mix", "--request-rate", "--otlp-traces-endpoint", "exit codes", "130"):
        assert word in text
