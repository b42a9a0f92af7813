from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from chaos.verdict import CheckStatus, RunStatus
from dashboards.junit import write_junit


def suite_of(builder, **verdict: object) -> ET.Element:
    builder.run_info()
    path = write_junit(builder.path, builder.verdict(**verdict))
    assert path == builder.path / "junit.xml"
    root = ET.parse(path).getroot()
    assert root.tag == "testsuites"
    (suite,) = root.findall("testsuite")
    return suite


def test_one_case_a_check(builder) -> None:
    suite = suite_of(builder)
    assert suite.get("name") == "pd-partition"
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "6",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
        "time": "71.400",
    }
    assert suite.get("timestamp") == "2026-11-30T00:53:20"
    cases = {case.get("name"): [child.tag for child in case] for case in suite.findall("testcase")}
    assert cases == {
        "one_terminal_answer": [],
        "counts_at_baseline": ["failure"],
        "abort_codes": ["failure"],
        "tokens_equal_control": ["error"],
        "metrics_agree": ["skipped"],
        "recovery": [],
    }
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties == {"seed": "7", "run_id": "r-20261201", "status": "failed", "exit_code": "1"}


def test_failure_names_expected_observed_and_evidence(builder) -> None:
    failure = suite_of(builder).find("testcase[@name='counts_at_baseline']/failure")
    assert "free counts equal to the baseline" in failure.get("message")
    assert "12 pages of p0 missing" in failure.get("message")
    assert "evidence: rid load-7-0008 span 0000000000000329" in failure.text


@pytest.mark.parametrize(
    "status", [RunStatus.HALTED, RunStatus.INVALID, RunStatus.RESIDUE, RunStatus.FAILED]
)
def test_a_run_that_did_not_pass_is_never_green(builder, status: RunStatus) -> None:
    passed = tuple(one for one in builder.checks() if one.status is CheckStatus.PASS)
    suite = suite_of(builder, status=status, checks=passed, reason="because", residue=("pid 7",))
    assert suite.get("errors") == "1"
    error = suite.find(f"testcase[@name='run.{status}']/error")
    assert "because" in error.get("message")
    assert "pid 7" in error.text


def test_a_passed_run_is_green(builder) -> None:
    passed = tuple(one for one in builder.checks() if one.status is CheckStatus.PASS)
    suite = suite_of(builder, status=RunStatus.PASSED, checks=passed)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "0")


def test_text_that_xml_cannot_hold(builder) -> None:
    builder.hostile = ']]><x a="1">&\x00\x1b[31m\ufffe end'
    failure = suite_of(builder).find("testcase[@name='counts_at_baseline']/failure")
    assert ']]><x a="1">&\ufffd\ufffd[31m\ufffd end' in failure.text


def test_without_run_json(builder) -> None:
    path = write_junit(builder.path, builder.verdict())
    assert ET.parse(path).getroot().find("testsuite").get("timestamp") is None
