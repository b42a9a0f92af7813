"""`junit.xml`: one test case a check, so that a CI server shows which law of a run was broken.

fail -> failure; unknown -> error (nothing was proven); unobservable -> skipped. A run that did not pass
although no check says so (halted, invalid, residue) gets one more case, named after its status.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from chaos.records import RunInfo
from chaos.verdict import CheckResult, CheckStatus, RunStatus, Verdict
from dashboards.errors import OutputUnwritable
from dashboards.run_dir import started_at

FILE = "junit.xml"
_OUTCOMES = {
    CheckStatus.FAIL: "failure",
    CheckStatus.UNKNOWN: "error",
    CheckStatus.UNOBSERVABLE: "skipped",
    CheckStatus.REPORTED: "skipped",
}
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(run_dir: Path, verdict: Verdict) -> Path:
    """Write ``run_dir/junit.xml`` and return its path. Raises `OutputUnwritable`."""
    path = run_dir / FILE
    tree = ET.ElementTree(_suites(verdict, _started(run_dir)))
    ET.indent(tree)
    try:
        tree.write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise OutputUnwritable(path, error) from error
    return path


def _suites(verdict: Verdict, started: str | None) -> ET.Element:
    cases = [_case(verdict, check) for check in verdict.checks]
    if verdict.status is not RunStatus.PASSED and not any(map(_is_bad, cases)):
        cases.append(_status_case(verdict))
    counts = {
        "tests": str(len(cases)),
        "failures": str(_count(cases, "failure")),
        "errors": str(_count(cases, "error")),
        "skipped": str(_count(cases, "skipped")),
        "time": f"{verdict.duration_s:.3f}",
    }
    name = _legal(verdict.scenario)
    suites = ET.Element("testsuites", {"name": name, **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": name, **counts})
    if started:
        suite.set("timestamp", started)
    suite.append(_properties(verdict))
    suite.extend(cases)
    return suites


def _properties(verdict: Verdict) -> ET.Element:
    properties = ET.Element("properties")
    values = {
        "seed": str(verdict.seed),
        "run_id": verdict.run_id,
        "status": verdict.status.value,
        "exit_code": str(verdict.exit_code),
    }
    for name, value in values.items():
        ET.SubElement(properties, "property", {"name": name, "value": _legal(value)})
    return properties


def _case(verdict: Verdict, check: CheckResult) -> ET.Element:
    case = ET.Element(
        "testcase", {"classname": _legal(verdict.scenario), "name": _legal(check.id), "time": "0"}
    )
    tag = _OUTCOMES.get(check.status)
    if tag:
        message = f"{check.status}: expected {check.expected}; observed {check.observed}"
        outcome = ET.SubElement(case, tag, {"message": _legal(message), "type": check.status.value})
        outcome.text = _legal(_details(check))
    return case


def _details(check: CheckResult) -> str:
    lines = [
        f"expected: {check.expected}",
        f"observed: {check.observed}",
        f"examined: {check.examined}, exempted: {check.exempted}",
    ]
    for item in check.evidence:
        names = [f"rid {item.rid}"] if item.rid else []
        names += [f"span {item.span_id}"] if item.span_id else []
        lines.append(" ".join(("evidence:", *names, item.value)).rstrip())
    return "\n".join(lines)


def _status_case(verdict: Verdict) -> ET.Element:
    status = verdict.status.value
    case = ET.Element(
        "testcase", {"classname": _legal(verdict.scenario), "name": f"run.{status}", "time": "0"}
    )
    message = f"the run is {status} (exit code {verdict.exit_code}): {verdict.reason}"
    error = ET.SubElement(case, "error", {"message": _legal(message), "type": status})
    error.text = _legal("\n".join((message, *verdict.residue)))
    return case


def _is_bad(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _count(cases: list[ET.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _legal(text: str) -> str:
    """XML 1.0 has no way to write most control characters."""
    return _ILLEGAL.sub("\ufffd", text)


def _started(run_dir: Path) -> str | None:
    """When the run began, if `run.json` says so."""
    try:
        info = msgspec.json.decode((run_dir / "run.json").read_bytes(), type=RunInfo)
    except (OSError, msgspec.MsgspecError):
        return None
    moment = started_at(info)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") if moment else None
