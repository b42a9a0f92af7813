"""The verdict as a Chaos Toolkit journal."""

from __future__ import annotations

import json

import pytest

from chaos.verdict import RunStatus

# Of a journal that chaostoolkit-lib 1.44.0 wrote.
TOP = {
    *("chaoslib-version", "platform", "node", "experiment", "start", "status", "deviated"),
    *("steady_states", "run", "rollbacks", "end", "duration"),
}
ACTIVITY = {"activity", "output", "start", "status", "end", "duration"}


def journal_of(builder, severance, **verdict: object) -> dict:
    builder.run_info()
    builder.verdict(**verdict)
    done = severance("export", str(builder.path), "--format", "chaostoolkit")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_has_the_shape_of_a_journal(builder, severance) -> None:
    journal = journal_of(builder, severance)
    assert set(journal) == TOP
    assert set(journal["steady_states"]) == {"before", "after", "during"}
    probes = journal["steady_states"]["after"]["probes"]
    for activity in (*journal["run"], *journal["rollbacks"], *probes):
        assert set(activity) - {"tolerance_met"} == ACTIVITY
        assert activity["status"] in ("succeeded", "failed")
    assert journal["run"], "the verdict has faults"
    assert len(journal["run"]) == len(journal["rollbacks"])


def test_only_a_pass_meets_its_tolerance(builder, severance) -> None:
    journal = journal_of(builder, severance)
    after = journal["steady_states"]["after"]
    met = {one["activity"]["name"]: one["tolerance_met"] for one in after["probes"]}
    assert met == {
        "one_terminal_answer": True,
        "counts_at_baseline": False,
        "abort_codes": False,
        "tokens_equal_control": False,
        "metrics_agree": False,
        "recovery": True,
    }
    assert after["steady_state_met"] is False
    assert journal["deviated"] is True
    assert journal["status"] == "completed"


@pytest.mark.parametrize(
    ("status", "expected"),
    [(RunStatus.HALTED, "aborted"), (RunStatus.INVALID, "failed"), (RunStatus.RESIDUE, "failed")],
)
def test_how_it_ended(builder, severance, status: RunStatus, expected: str) -> None:
    assert journal_of(builder, severance, status=status)["status"] == expected


def test_a_run_that_was_not_judged_is_no_journal(builder, severance) -> None:
    builder.run_info()
    (builder.path / "verdict.json").unlink(missing_ok=True)
    done = severance("export", str(builder.path), "--format", "chaostoolkit")
    assert done.returncode != 0
    assert "severance check" in done.stderr
