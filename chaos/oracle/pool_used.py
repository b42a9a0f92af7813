"""`pool_used`: the load really filled KV pools, where a scenario wants that (`expect.min_pool_used`)."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check

_PAGES = "kv_pages"
_MIN_SAMPLES = 2
"""One sample may be a moment that nothing else knows of."""


@check(
    "pool_used",
    "so large a share of some worker's KV pages was held during the load",
    Source.SCENARIO,
    Source.HISTORY,
    Source.LEDGER,
)
def check_pool_used(evidence: RunEvidence, findings: Findings) -> None:
    """Too little is unknown, not a failure: the deployment is not to blame."""
    least = evidence.plan.expect.min_pool_used
    findings.expected = f"at least {least:.0%} of a worker's KV pages held, {_MIN_SAMPLES} times"
    findings.noun = "ledger samples"
    shares = dict(_shares(evidence))
    findings.saw(sum(map(len, shares.values())))
    findings.note = "most held: " + ", ".join(
        f"{worker} {max(held):.0%}" for worker, held in shares.items()
    )
    if all(sum(one >= least for one in held) < _MIN_SAMPLES for held in shares.values()):
        findings.doubt(f"no worker held {least:.0%} of its KV pages {_MIN_SAMPLES} times")


def _shares(evidence: RunEvidence) -> Iterator[tuple[str, list[float]]]:
    """Of each worker, the share of its pages that was held in each sample of the load."""
    for worker in evidence.plan.workers:
        counts = [
            sample.ledger.resources[_PAGES]
            for sample in evidence.samples
            if sample.worker == worker and sample.phase == "load" and sample.ledger is not None
        ]
        if counts:
            yield worker, [one.held / one.total for one in counts]
