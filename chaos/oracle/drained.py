"""`drained`: after the load every worker says, by its metrics, that it has nothing left.

For targets without a ledger, where this is all that can be seen of what a worker holds.
"""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.records import EventKind

NOTE = "drained"


@check(
    "drained",
    "no worker has a request left after the load",
    Source.SCENARIO,
    Source.HISTORY,
    Source.EVENTS,
)
def check_drained(evidence: RunEvidence, findings: Findings) -> None:
    """A wait that began before the last request was over says nothing."""
    findings.noun = "waits"
    for event in evidence.events:
        if event.kind is not EventKind.NOTE or event.name != NOTE or event.ok is None:
            continue
        if event.at_ns < evidence.last_end_ns:
            findings.doubt("it was not waited until the last request was over")
            continue
        findings.saw()
        if not event.ok:
            findings.fail(event.detail)
