"""What is left to the router is shown and decides nothing; nothing else can be left to it."""

from __future__ import annotations

import pytest

from chaos.oracle.plan import DeploymentPlan, Expectations, Plan, RouterPlan
from chaos.oracle.report_only import ROUTERS_OWN, reported
from chaos.verdict import CheckResult, CheckStatus

DEFAULTS = RouterPlan(retries=5, circuit_breaker=True)


def plan(*names: str, router: RouterPlan = DEFAULTS) -> Plan:
    return Plan(
        name="pd",
        deployment=DeploymentPlan(router=router),
        expect=Expectations(report_only=names),
    )


def result(name: str, status: CheckStatus) -> CheckResult:
    return CheckResult(id=name, status=status, examined=9, expected="all well", observed="2 wrong")


@pytest.mark.parametrize("status", [CheckStatus.FAIL, CheckStatus.UNKNOWN])
def test_it_is_reported_with_what_it_was(status: CheckStatus) -> None:
    got = reported(plan("recovery"), result("recovery", status))
    assert got.status is CheckStatus.REPORTED
    assert got.observed == f"{status}, not judged here: 2 wrong"


def test_a_pass_stays_a_pass() -> None:
    passed = result("recovery", CheckStatus.PASS)
    assert reported(plan("recovery"), passed) == passed


def test_what_was_not_asked_for_is_judged() -> None:
    failed = result("late", CheckStatus.FAIL)
    assert reported(plan("recovery"), failed) == failed


def test_a_router_that_decides_nothing_excuses_nothing() -> None:
    failed = result("recovery", CheckStatus.FAIL)
    assert reported(plan("recovery", router=RouterPlan()), failed) == failed


@pytest.mark.parametrize(
    "name", ["tokens_equal_control", "ledger_baseline", "answers", "faults_proven", "run_complete"]
)
def test_what_workers_owe_is_judged_whatever_the_file_says(name: str) -> None:
    assert name not in ROUTERS_OWN
    failed = result(name, CheckStatus.FAIL)
    assert reported(plan(name), failed) == failed
