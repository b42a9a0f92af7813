"""From checks and ending to an exit code: 5, then 130, 1, 3, 4; 0 only with proof."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chaos.oracle.conclusion import Ending, conclude
from chaos.verdict import CheckResult, CheckStatus, RunStatus

STATUS_OF = {
    0: RunStatus.PASSED,
    1: RunStatus.FAILED,
    3: RunStatus.HALTED,
    4: RunStatus.INVALID,
    5: RunStatus.RESIDUE,
    130: RunStatus.INVALID,
}
checks = st.builds(
    CheckResult,
    id=st.sampled_from(("answers", "late", "recovery")),
    status=st.sampled_from(CheckStatus),
    examined=st.integers(min_value=0, max_value=3),
    expected=st.just("all"),
    observed=st.just("some"),
    kinds=st.sampled_from(((), ("history",))),
)
endings = st.builds(
    Ending,
    finished=st.booleans(),
    interrupted=st.booleans(),
    halted_by=st.sampled_from((None, "stuck_request: r1")),
    residue=st.sampled_from(((), ("process d0",))),
)


def expected_code(ending: Ending, results: list[CheckResult]) -> int:
    """DESIGN 4, read aloud."""
    statuses = {one.status for one in results}
    blind = any(one.status is CheckStatus.PASS and not one.examined for one in results)
    speaks = any(one.status is CheckStatus.PASS and one.kinds for one in results)
    holds = {
        5: bool(ending.residue),
        130: ending.interrupted,
        1: CheckStatus.FAIL in statuses,
        3: ending.halted_by is not None,
        4: not ending.finished or CheckStatus.UNKNOWN in statuses or not speaks or blind,
    }
    return next((code for code, true in holds.items() if true), 0)


@given(endings, st.lists(checks, max_size=4))
def test_the_first_that_holds(ending: Ending, results: list[CheckResult]) -> None:
    conclusion = conclude(ending, results)
    assert conclusion.exit_code == expected_code(ending, results)
    assert conclusion.status is STATUS_OF[conclusion.exit_code]
    assert conclusion.reason


@given(endings, st.lists(checks, max_size=4), checks)
def test_one_more_check_never_helps_a_run_that_did_not_pass(
    ending: Ending, results: list[CheckResult], more: CheckResult
) -> None:
    before = conclude(ending, results)
    after = conclude(ending, [*results, more])
    if before.exit_code == 0:
        helps = more.status in (CheckStatus.PASS, CheckStatus.UNOBSERVABLE)
        assert (after.exit_code == 0) == (helps and (more.examined > 0 or more.status != "pass"))
    elif any(one.status is CheckStatus.PASS and one.kinds for one in results):
        assert after.exit_code != 0


def test_no_checks_are_no_proof() -> None:
    assert conclude(Ending(finished=True), []).exit_code == 4
