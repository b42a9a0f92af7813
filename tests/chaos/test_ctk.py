"""The real Chaos Toolkit, with the example experiment, against `severance up` around stand-in workers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.records import FaultEvent, FaultRecord, read_jsonl
from chaos.target import load_target
from chaos.target_deployment import TargetDeployment
from tests.chaos.test_up import Up, running

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        importlib.util.find_spec("chaoslib") is None, reason="chaostoolkit is not installed"
    ),
]
HOME = Path(__file__).resolve().parents[2]
EXPERIMENT = HOME / "docs" / "examples" / "ctk-experiment.yaml"


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running(tmp_path) as up:
        up.wait_serving()
        up.wait_for(lambda: (up.out / "target.yaml").exists(), "target.yaml")
        yield up
        assert up.end(signal.SIGTERM) == 0


def toolkit(up: Up, *command: str) -> subprocess.Popen[str]:
    target, records = str(up.out / "target.yaml"), str(up.out.parent / "ctk")
    return subprocess.Popen(
        [sys.executable, "-c", "from chaostoolkit.cli import cli; cli()", *command],
        cwd=up.out.parent,
        env={
            **os.environ,
            "PYTHONPATH": str(HOME),
            "SEVERANCE_TARGET": target,
            "SEVERANCE_CTK_DIR": records,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(up: Up, experiment: Path) -> dict[str, object]:
    """Its journal."""
    path = up.out.parent / "journal.json"
    command = ["run", "--rollback-strategy", "always", "--journal-path", str(path)]
    with toolkit(up, *command, str(experiment)) as process:
        out, _ = process.communicate(timeout=90)
    assert path.exists(), out
    journal: dict[str, object] = json.loads(path.read_text())
    return journal


def last_events(folder: Path) -> dict[str, FaultEvent]:
    (journal,) = folder.glob("ctk/*/faults.jsonl")
    return {record.fault_id: record.event for record in read_jsonl(journal, FaultRecord)}


def is_clean(up: Up) -> bool:
    target = load_target(up.out / "target.yaml")
    deployment = TargetDeployment(target, up.out / "x", up.out / "x" / "spans.sqlite")
    deployment.attach()
    return deployment.stop() == []


def test_the_example_experiment_of_the_page(up: Up) -> None:
    journal = run(up, EXPERIMENT)
    assert journal["status"] == "completed"
    assert journal["deviated"] is False
    acts = journal["run"]
    assert isinstance(acts, list)
    assert [act["status"] for act in acts] == ["succeeded"] * 3, acts
    assert "canary passes" in acts[0]["output"]
    assert last_events(up.out.parent) == {"t1-stall": FaultEvent.HEALED}
    assert is_clean(up)


def test_what_is_wrong_is_a_failed_action_and_a_deviation(up: Up, tmp_path: Path) -> None:
    """A link that is not there fails its action; a cut that nobody heals is healed at the end."""
    text = EXPERIMENT.read_text()
    mend = text[
        text.index("  - {type: action, name: mend") : text.index(
            "  - {type: probe, name: links-are"
        )
    ]
    changed = tmp_path / "changed.yaml"
    rollbacks = text[text.index("rollbacks:") :]
    changed.write_text(text.replace(mend, "").replace(rollbacks, "rollbacks: []\n"))
    journal = run(up, changed)
    acts = journal["run"]
    assert isinstance(acts, list)
    assert acts[-1]["output"] is False, "links_are_clean while kv is stalled"
    assert last_events(tmp_path) == {"t1-stall": FaultEvent.HEALED}
    assert is_clean(up)

    changed.write_text(text.replace("kv:p0-d0", "kv:p7-d0"))
    journal = run(up, changed)
    acts = journal["run"]
    assert isinstance(acts, list)
    assert acts[0]["status"] == "failed"
    assert "matches no link" in str(acts[0]["exception"])


def test_a_killed_toolkit_leaves_no_cut(up: Up, tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    slow.write_text(EXPERIMENT.read_text().replace("pauses: {after: 1}", "pauses: {after: 60}"))
    with toolkit(up, "run", str(slow)) as process:
        up.wait_for(lambda: "injected" in events(tmp_path), "injected")
        assert not_clean(up)
        process.kill()
        process.wait(10)
    up.wait_for(lambda: not not_clean(up), "the watchdog's heal")
    assert is_clean(up)


def events(folder: Path) -> list[str]:
    journals = list(folder.glob("ctk/*/faults.jsonl"))
    return [str(record.event) for path in journals for record in read_jsonl(path, FaultRecord)]


def not_clean(up: Up) -> bool:
    from chaos.heal import unhealed

    target = load_target(up.out / "target.yaml")
    there = TargetDeployment(target, up.out / "x", up.out / "x" / "spans.sqlite")
    return bool(unhealed(there.toxiproxy, there.links))


def test_discovery_lists_every_activity_with_plain_types(up: Up, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    code = (
        "import json, sys, chaos; found = chaos.discover();"
        " json.dump(found, open(sys.argv[1], 'w'))"
    )
    subprocess.run([sys.executable, "-c", code, str(found)], cwd=HOME, check=True, timeout=60)
    activities = json.loads(found.read_text())["activities"]
    kinds = {(one["type"], one["name"]) for one in activities}
    assert {("action", "heal"), ("action", "cut_links"), ("probe", "nothing_is_held")} <= kinds
    types = {arg["type"] for one in activities for arg in one["arguments"]}
    assert types <= {"string", "number", "integer"}, "discovery cannot show other types"
