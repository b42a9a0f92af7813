"""Target files: what they may say, and which scenarios fit them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cli import add_commands
from chaos.errors import UsageError
from chaos.scenario import load_scenario
from chaos.target import dump_target, load_target
from chaos.target_fit import fitted, unsupported

GOOD = """
name: mine
preset: sglang
router: http://127.0.0.1:30000
toxiproxy: {control: "127.0.0.1:8474"}
workers:
  - {name: p0, role: prefill, url: "http://127.0.0.1:30001"}
  - name: d0
    role: decode
    url: http://127.0.0.1:30002
    kill: [systemctl, kill, decode]
    restart: [systemctl, start, decode]
links:
  - {name: "kv:p0-d0", proxy: kv}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "target.yaml"
    path.write_text(text)
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    target = load_target(write(tmp_path, GOOD))
    dump_target(target, tmp_path / "again.yaml")
    assert load_target(tmp_path / "again.yaml") == target


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("preset: sglang", "preset: sglan", "preset"),
        ("router: http://127.0.0.1:30000", "router: 127.0.0.1", "router"),
        ("name: d0", "name: d1", "number them from 0"),
        ("role: decode", "role: prefill", "d the others"),
        ("    kill: [systemctl, kill, decode]\n", "", "needs both kill and restart"),
        ("kill: [systemctl, kill, decode]", "kill: []", "kill"),
        ("kv:p0-d0", "kv:p0-d3", "an end that is no worker"),
        ('toxiproxy: {control: "127.0.0.1:8474"}', "", "need toxiproxy.control"),
        ("proxy: kv", "proxi: kv", "proxi"),
        ("preset: sglang", "preset: severance", "needs bootstrap"),
        (GOOD, "- a list", "holds no target"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=words):
        load_target(write(tmp_path, GOOD.replace(old, new)))


def scenario(tmp_path: Path, rest: str) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"name: x\nload: {{duration_s: 20}}\n{rest}")
    return path


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ('{kind: link, mode: stall, links: ["kv:*"], for_s: 1}', None),
        ("{kind: process, mode: kill, worker: d0}", None),
        (
            '{kind: link, mode: stall, links: ["control:*"], for_s: 1}',
            "no link of the target matches",
        ),
        ("{kind: process, mode: kill, worker: p0}", "p0 has no kill and restart"),
        ("{kind: process, mode: pause, worker: d0, for_s: 1}", "d0 is not pausable"),
        ("{kind: process, mode: restart, worker: d0}", "stops a worker gently"),
        ("{kind: telemetry, mode: collector_down, for_s: 1}", "not ours to stop"),
    ],
)
def test_a_fault_that_cannot_be_made_is_said(
    tmp_path: Path, fault: str, problem: str | None
) -> None:
    target = load_target(write(tmp_path, GOOD))
    one = load_scenario(scenario(tmp_path, f"method: [{{at_s: 5, fault: {fault}}}]"))
    problems = unsupported(one, target)
    assert bool(problems) == (problem is not None), problems
    assert problem is None or problem in problems[0]


def test_what_a_server_cannot_do_is_said(tmp_path: Path) -> None:
    text = GOOD.replace("sglang", "vllm")
    one = load_scenario(scenario(tmp_path, "guards: [{kind: residue}]"))
    problems = unsupported(one, load_target(write(tmp_path, text)))
    assert [line.split(":")[0] for line in problems] == ["load", "load.aborts", "guards"]


def test_the_record_says_which_workers_there_are(tmp_path: Path) -> None:
    text = GOOD.replace(
        "links:", '  - {name: d1, role: decode, url: "http://127.0.0.1:30003"}\nlinks:'
    )
    one = fitted(load_scenario(scenario(tmp_path, "")), load_target(write(tmp_path, text)))
    assert (one.deployment.prefill, one.deployment.decode) == (1, 2)


def severance(*argv: str) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="severance")
    add_commands(parser.add_subparsers(dest="command", required=True))
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


def test_unsupported_is_a_usage_error_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(write(tmp_path, GOOD))
    path = scenario(
        tmp_path,
        'method: [{at_s: 5, fault: {kind: link, mode: stall, links: ["control:*"], for_s: 1}}]',
    )
    out = tmp_path / "out"
    assert severance("run", str(path), "--target", target, "--out", str(out)) == 2
    assert not out.exists()
    error = capsys.readouterr().err
    assert "unsupported: method[0]: stall: no link of the target matches control:*" in error


def test_a_toxiproxy_that_is_not_there_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace("8474", "9")
    code = severance(
        *("run", str(scenario(tmp_path, "")), "--target", str(write(tmp_path, text))),
        *("--out", str(tmp_path / "out")),
    )
    assert code == 2
    assert "no proxy kv" in capsys.readouterr().err


def test_a_suite_of_which_nothing_fits_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    fault = '{at_s: 5, fault: {kind: link, mode: stall, links: ["control:*"], for_s: 1}}'
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(
            f"name: {name}\nload: {{duration_s: 20}}\nmethod: [{fault}]\n"
        )
    target = str(write(tmp_path, GOOD))
    assert severance("run", str(folder), "--target", target, "--out", str(tmp_path / "out")) == 2
    assert "nothing of this suite fits the target" in capsys.readouterr().err
