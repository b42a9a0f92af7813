"""`Findings` and `@check`: how a check looks, counts and concludes. One place holds the safety rules.

A check that lacks a file, throws, or examined nothing is unknown, and unknown is never passed.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.oracle.evidence import RunEvidence, Source
from chaos.verdict import CheckResult, CheckStatus, Evidence
from dashboards.spans import Span

MAX_EVIDENCE = 100


class Findings:
    """Filled by one check. ``noun`` and ``note`` go into the sentence that says what was observed."""

    def __init__(self, expected: str) -> None:
        self.expected = expected
        self.noun = "cases"
        self.note = ""
        self.examined = 0
        self.exempted = 0
        self._failures: list[Evidence] = []
        self._doubts: list[Evidence] = []

    def saw(self, count: int = 1) -> None:
        """So many cases were really looked at."""
        self.examined += count

    def exempt(self, count: int = 1) -> None:
        """So many cases are explained by a fault (or, for tokens, by a near tie)."""
        self.exempted += count

    def fail(self, value: str, *, rid: str | None = None, span: Span | None = None) -> None:
        self._failures.append(_evidence(value, rid, span))

    def doubt(self, value: str, *, rid: str | None = None, span: Span | None = None) -> None:
        """Something that cannot be judged: the check is unknown unless it fails anyway."""
        self._doubts.append(_evidence(value, rid, span))

    def result(self, check_id: str) -> CheckResult:
        status, evidence = self._status()
        return CheckResult(
            id=check_id,
            status=status,
            examined=self.examined,
            expected=self.expected,
            observed=self._observed(evidence),
            evidence=tuple(evidence[:MAX_EVIDENCE]),
            exempted=self.exempted,
        )

    def _status(self) -> tuple[CheckStatus, list[Evidence]]:
        if self._failures:
            return CheckStatus.FAIL, self._failures + self._doubts
        if self._doubts or not self.examined:
            return CheckStatus.UNKNOWN, self._doubts
        return CheckStatus.PASS, []

    def _observed(self, evidence: list[Evidence]) -> str:
        seen = f"{self.examined} {self.noun} examined"
        if self.exempted:
            seen += f", {self.exempted} exempted"
        if self._failures:
            text = f"{len(self._failures)} wrong: {_quote(self._failures[0])}; {seen}"
        elif self._doubts:
            text = f"{len(self._doubts)} cannot be judged: {_quote(self._doubts[0])}; {seen}"
        elif not self.examined:
            text = f"nothing to examine: {seen}"
        else:
            text = seen
        return f"{text}; {self.note}" if self.note else text


CheckBody = Callable[[RunEvidence, Findings], None]
CheckFunction = Callable[[RunEvidence], CheckResult]


def check(check_id: str, expected: str, *needs: Source) -> Callable[[CheckBody], CheckFunction]:
    """Make a check of a function that fills `Findings`. ``needs``: files without which it is unknown."""

    def wrap(body: CheckBody) -> CheckFunction:
        def run(evidence: RunEvidence) -> CheckResult:
            gaps = [gap for gap in evidence.gaps if gap.source in needs]
            if gaps:
                why = "; ".join(f"{gap.source} {gap.why}" for gap in gaps)
                return _unknown(check_id, expected, f"needs {why}")
            findings = Findings(expected)
            try:
                body(evidence, findings)
            except Exception as error:
                # Recorded, not swallowed: the run cannot pass with an unknown check.
                return _unknown(check_id, expected, f"broke: {type(error).__name__}: {error}")
            return findings.result(check_id)

        run.__name__ = run.__qualname__ = f"check_{check_id}"
        run.__doc__ = body.__doc__
        return run

    return wrap


def _unknown(check_id: str, expected: str, observed: str) -> CheckResult:
    return CheckResult(
        id=check_id,
        status=CheckStatus.UNKNOWN,
        examined=0,
        expected=expected,
        observed=observed,
    )


def _evidence(value: str, rid: str | None, span: Span | None) -> Evidence:
    return Evidence(rid=rid, span_id=span.span_id if span else None, value=value)


def _quote(one: Evidence) -> str:
    return f"{one.rid}: {one.value}" if one.rid else one.value
