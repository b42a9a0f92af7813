"""`capacity_probe`: a request that needs the whole pool completes on every pair."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.records import EventKind, RunEvent

_NEW_TOKENS = 8
"""Output tokens that the probe may have asked for on top."""


@check(
    "capacity_probe",
    "after the load, a request that needs every page completes on every pair",
    Source.SCENARIO,
    Source.HISTORY,
    Source.LEDGER,
    Source.EVENTS,
)
def check_capacity_probe(evidence: RunEvidence, findings: Findings) -> None:
    """Proof from outside: counts can be wrong together, a request that gets all pages cannot."""
    findings.noun = "pairs"
    probes = [
        event
        for event in evidence.events
        if event.kind is EventKind.PROBE and event.name.startswith("capacity")
    ]
    for prefill in evidence.plan.prefill_workers:
        for decode in evidence.plan.decode_workers:
            _pair(evidence, (prefill, decode), probes, findings)


def _pair(
    evidence: RunEvidence, pair: tuple[str, str], probes: Sequence[RunEvent], findings: Findings
) -> None:
    name = "-".join(pair)
    pool = _pool_tokens(evidence, pair)
    mine = [event for event in probes if event.name.partition(":")[2] == name]
    if pool is None or not mine:
        findings.doubt(f"{name}: {'no probe was sent' if pool else 'no baseline of its pool'}")
        return
    least = pool - evidence.plan.deployment.worker.page_size - _NEW_TOKENS
    for event in mine:
        if event.ok is None or event.value is None or event.at_ns < evidence.last_end_ns:
            findings.doubt(f"{name}: the probe says nothing: {event.detail or 'no result'}")
        elif not event.ok:
            findings.saw()
            findings.fail(f"{name}: {event.value:.0f} tokens did not complete: {event.detail}")
        elif event.value < least:
            findings.doubt(f"{name}: asked for {event.value:.0f} tokens, the pool holds {pool}")
        else:
            findings.saw()


def _pool_tokens(evidence: RunEvidence, pair: tuple[str, str]) -> int | None:
    """Free tokens at baseline of the smaller pool; None if one is not known."""
    pages = {
        sample.worker: sample.ledger.resources["kv_pages"].free
        for sample in evidence.samples
        if sample.phase == "baseline" and sample.ledger and "kv_pages" in sample.ledger.resources
    }
    if any(worker not in pages for worker in pair):
        return None
    return min(pages[worker] for worker in pair) * evidence.plan.deployment.worker.page_size
