"""`recovery`: after each heal requests succeed again soon, and then as many as before the first fault.

::

    first fault on          heal       first success                 + window
    ────────┤███████████████├──────────────┤────────────────────────────┤
    baseline                 <= 5 s         due in here: completed share >= 0.8 x baseline share
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import FaultWindow
from chaos.oracle.findings import Findings, check
from chaos.oracle.paths import did_meet
from chaos.oracle.requests import Request

MIN_DUE = 3
"""Fewer requests than this show no share."""


class Share(Struct, frozen=True, kw_only=True):
    """Of the requests due in a window that their client did not give up."""

    due: int
    completed: int

    @property
    def value(self) -> float:
        return self.completed / self.due if self.due else 0.0


class Recovery(Struct, frozen=True, kw_only=True):
    """``first_success_ms`` from the heal. ``until_ns``: when the next fault began or the
    run was cut short, if either happened."""

    fault: FaultWindow
    healed_ns: int
    until_ns: int | None
    first_success_ms: float | None
    share: Share
    goodput_back_ms: float | None


@check(
    "recovery",
    "after each heal a first success on what was hurt, then goodput as before the faults",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
)
def check_recovery(evidence: RunEvidence, findings: Findings) -> None:
    """Needs requests due after each heal and before the first fault; too few are unknown."""
    expect = evidence.plan.expect
    findings.expected = (
        f"first success within {expect.recovery_first_success_s:g} s of each heal (through a pair "
        f"that was hurt), then over "
        f"{expect.recovery_window_s:g} s at least {expect.recovery_goodput_share:.0%} of the "
        f"goodput share before the faults"
    )
    findings.noun = "heals"
    before = baseline_share(evidence)
    if before.due < MIN_DUE or not before.completed:
        findings.doubt(f"{before.due} requests were due before the first fault, {MIN_DUE} wanted")
        return
    notes = []
    for fault in evidence.faults:
        recovery = recovery_of(evidence, fault)
        if recovery is None:
            findings.doubt(f"{fault.label}: no heal is recorded")
        else:
            notes.append(_judge(evidence, recovery, before, findings))
    findings.note = "; ".join(notes)


def baseline_share(evidence: RunEvidence) -> Share:
    """From the first request to the first fault."""
    begins = [fault.begin_ns for fault in evidence.faults if fault.begin_ns is not None]
    until_ns = min(begins, default=None)
    if until_ns is None:
        return Share(due=0, completed=0)
    return _share(evidence.requests, evidence.load_begin_ns, until_ns, until_ns)


def recovery_of(evidence: RunEvidence, fault: FaultWindow) -> Recovery | None:
    """None for a fault that was not healed."""
    if fault.healed_ns is None:
        return None
    begins = [one.begin_ns for one in evidence.faults if one.begin_ns is not None]
    stops = [*begins, *([evidence.cut_ns] if evidence.cut_ns is not None else [])]
    until_ns = min((at for at in stops if at > fault.healed_ns), default=None)
    success_ns = _first_success(evidence, fault, fault.healed_ns, until_ns)
    from_ns = success_ns if success_ns is not None else fault.healed_ns
    window_ns = int(evidence.plan.expect.recovery_window_s * 1e9)
    return Recovery(
        fault=fault,
        healed_ns=fault.healed_ns,
        until_ns=until_ns,
        first_success_ms=None if success_ns is None else (success_ns - fault.healed_ns) / 1e6,
        share=_share(evidence.requests, from_ns, from_ns + window_ns, until_ns),
        goodput_back_ms=_goodput_back_ms(evidence, fault.healed_ns, until_ns),
    )


def _goodput_back_ms(evidence: RunEvidence, healed_ns: int, until_ns: int | None) -> float | None:
    """From the heal to the first due time from which on the share was that of the baseline.

    None: never, or nothing to compare with.
    """
    before = baseline_share(evidence)
    least = evidence.plan.expect.recovery_goodput_share * before.value
    window_ns = int(evidence.plan.expect.recovery_window_s * 1e9)
    if not before.completed:
        return None
    for at_ns in sorted(one.sent.scheduled_ns for one in evidence.requests):
        if at_ns < healed_ns or (until_ns is not None and at_ns >= until_ns):
            continue
        share = _share(evidence.requests, at_ns, at_ns + window_ns, until_ns)
        if share.due and share.value >= least:
            return (at_ns - healed_ns) / 1e6
    return None


def _judge(evidence: RunEvidence, recovery: Recovery, before: Share, findings: Findings) -> str:
    """Returns what was seen, in words."""
    label, share = recovery.fault.label, recovery.share
    if not _succeeded(evidence, recovery, findings):
        return f"{recovery.fault.id}: no success in time"
    success_s = (recovery.first_success_ms or 0.0) / 1e3
    if share.due < MIN_DUE:
        findings.doubt(f"{label}: {share.due} requests were due after it, {MIN_DUE} wanted")
        return f"{recovery.fault.id}: first success {success_s:.1f} s"
    findings.saw()
    least = evidence.plan.expect.recovery_goodput_share * before.value
    if share.value < least:
        text = f"{share.completed} of {share.due} completed after it"
        findings.fail(f"{label}: {text}, {before.completed} of {before.due} before the faults")
    back_ms = recovery.goodput_back_ms
    back = "not back" if back_ms is None else f"back after {back_ms / 1e3:.1f} s"
    return (
        f"{recovery.fault.id}: first success {success_s:.1f} s, then {share.completed}/{share.due}, "
        f"goodput {back}"
    )


def _succeeded(evidence: RunEvidence, recovery: Recovery, findings: Findings) -> bool:
    limit_s = evidence.plan.expect.recovery_first_success_s
    took_ms, label = recovery.first_success_ms, recovery.fault.label
    if took_ms is not None and took_ms <= limit_s * 1e3:
        return True
    limit_ns = recovery.healed_ns + int(limit_s * 1e9)
    cut_short = recovery.until_ns is not None and recovery.until_ns < limit_ns
    tried = any(
        one.abort_kind is None
        and one.overlaps(recovery.healed_ns, limit_ns)
        and did_meet(evidence, recovery.fault, one)
        for one in evidence.requests
    )
    if cut_short or not tried or evidence.load_end_ns < recovery.healed_ns:
        findings.doubt(f"{label}: the load gave it no chance to show a success")
        return False
    findings.saw()
    seen = "no success at all" if took_ms is None else f"first success after {took_ms / 1e3:.1f} s"
    findings.fail(f"{label}: {seen}, limit {limit_s:g} s")
    return False


def _first_success(
    evidence: RunEvidence, fault: FaultWindow, healed_ns: int, until_ns: int | None
) -> int | None:
    """First completed request whose first token came after the heal: the whole path works again.

    With several pairs only one of a pair that was hurt counts: the others never stopped.
    """
    ends = [
        one.end.end_ns
        for one in evidence.requests
        if one.completed and one.end and one.end.first_ns and one.end.first_ns > healed_ns
        if did_meet(evidence, fault, one)
    ]
    first_ns = min(ends, default=None)
    if first_ns is None or (until_ns is not None and first_ns > until_ns):
        return None
    return first_ns


def _share(requests: Sequence[Request], from_ns: int, to_ns: int, until_ns: int | None) -> Share:
    """Requests due in the window. Those that the next fault met while open are left out."""
    due = [
        one
        for one in requests
        if from_ns <= one.sent.scheduled_ns < to_ns
        and one.abort_kind is None
        and not (until_ns is not None and (one.end is None or one.end.end_ns >= until_ns))
    ]
    return Share(due=len(due), completed=sum(one.completed for one in due))
