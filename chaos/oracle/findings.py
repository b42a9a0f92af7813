"""`Findings` and `Check`: how a check looks, counts and concludes. One place holds the safety rules.

A check that lacks a file, throws, or examined nothing is unknown, and unknown is never passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chaos.oracle.evidence import KIND_OF, RunEvidence, Source
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

    def result(self, check_id: str, kinds: tuple[str, ...] = ()) -> CheckResult:
        status, evidence = self._status()
        return CheckResult(
            id=check_id,
            status=status,
            examined=self.examined,
            expected=self.expected,
            observed=self._observed(evidence),
            evidence=tuple(evidence[:MAX_EVIDENCE]),
            exempted=self.exempted,
            kinds=kinds,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One law of a run, with what it needs as data.

    ``needs``: without one of these it cannot look at all: unknown if the file is missing or broken,
    unobservable if the target cannot show that kind. ``wants``: looked at where the target can show it;
    then a gap is unknown just the same.
    """

    id: str
    expected: str
    needs: tuple[Source, ...]
    wants: tuple[Source, ...]
    body: CheckBody

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of evidence without which it is unobservable."""
        return tuple(str(KIND_OF[source]) for source in self.needs if source in KIND_OF)

    def __call__(self, evidence: RunEvidence) -> CheckResult:
        unseen = [str(KIND_OF[one]) for one in self.needs if not evidence.can_show(one)]
        if unseen:
            return self._unobservable(unseen)
        sources = (*self.needs, *(one for one in self.wants if evidence.can_show(one)))
        gaps = [gap for gap in evidence.gaps if gap.source in sources]
        if gaps:
            why = "; ".join(f"{gap.source} {gap.why}" for gap in gaps)
            return self._unknown(f"needs {why}")
        findings = Findings(self.expected)
        try:
            self.body(evidence, findings)
            return findings.result(self.id, self.kinds)
        except Exception as error:
            # Recorded, not swallowed: the run cannot pass with an unknown check.
            return self._unknown(f"broke: {type(error).__name__}: {error}")

    def _unknown(self, observed: str) -> CheckResult:
        return CheckResult(
            id=self.id,
            status=CheckStatus.UNKNOWN,
            examined=0,
            expected=self.expected,
            observed=observed,
            kinds=self.kinds,
        )

    def _unobservable(self, unseen: list[str]) -> CheckResult:
        return CheckResult(
            id=self.id,
            status=CheckStatus.UNOBSERVABLE,
            examined=0,
            expected=self.expected,
            observed=f"this target cannot show: {', '.join(unseen)}",
            kinds=self.kinds,
        )


def check(
    check_id: str, expected: str, *needs: Source, wants: tuple[Source, ...] = ()
) -> Callable[[CheckBody], Check]:
    """Make a `Check` of a function that fills `Findings`."""

    def wrap(body: CheckBody) -> Check:
        return Check(id=check_id, expected=expected, needs=needs, wants=wants, body=body)

    return wrap


def _evidence(value: str, rid: str | None, span: Span | None) -> Evidence:
    return Evidence(rid=rid, span_id=span.span_id if span else None, value=value)


def _quote(one: Evidence) -> str:
    return f"{one.rid}: {one.value}" if one.rid else one.value
