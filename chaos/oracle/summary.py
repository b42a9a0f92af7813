"""Numbers of the verdict that no check owns: request counts, ledger counts, quantiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from chaos.oracle.evidence import RunEvidence
from chaos.oracle.requests import ABORT_KINDS, HUNG
from chaos.records import LedgerSample
from chaos.verdict import AbortRow, AbortSummary, LedgerSummary, Quantiles, RequestCounts
from loadtest.history import Outcome

UNKNOWN = "unknown"


def count_requests(evidence: RunEvidence) -> RequestCounts:
    """Counted by `end` lines, so that two ends of one request do not add up."""
    requests = evidence.requests
    ends = [end for request in requests for end in request.ends]
    outcomes = Counter(end.outcome for end in ends)
    aborted = {str(kind): outcomes[outcome] for outcome, kind in ABORT_KINDS.items()}
    known = {Outcome.COMPLETED, Outcome.ABORTED_SERVER, *ABORT_KINDS}
    failed = Counter(str(end.outcome) for end in ends if end.outcome not in known)
    failed[HUNG] = sum(request.end is None for request in requests)
    return RequestCounts(
        total=len(requests),
        completed=outcomes[Outcome.COMPLETED],
        aborted={kind: count for kind, count in aborted.items() if count},
        aborted_server=dict(
            Counter(
                end.error_reason or UNKNOWN for end in ends if end.outcome is Outcome.ABORTED_SERVER
            )
        ),
        failed={name: count for name, count in failed.items() if count},
    )


def summarize_ledger(evidence: RunEvidence) -> LedgerSummary:
    return LedgerSummary(
        baseline=_free(evidence.samples, "baseline"), workers=_free(evidence.samples, "final")
    )


def _free(samples: Iterable[LedgerSample], phase: str) -> dict[str, dict[str, int]]:
    """Free counts of the last answer of each worker in a phase."""
    return {
        sample.worker: {name: count.free for name, count in sample.ledger.resources.items()}
        for sample in samples
        if sample.phase == phase and sample.ledger is not None
    }


def summarize_aborts(rows: Sequence[AbortRow]) -> AbortSummary:
    return AbortSummary(
        count=len(rows),
        by_stage=dict(Counter(row.stage_seen or UNKNOWN for row in rows)),
        act_to_seen_ms=quantiles([r.act_to_seen_ms for r in rows if r.act_to_seen_ms is not None]),
        received_to_released_ms=quantiles(
            [ms for row in rows for ms in row.received_to_released_ms.values()]
        ),
        wasted_tokens=sum(row.wasted_prefill_tokens + row.wasted_decode_tokens for row in rows),
    )


def quantiles(values: Sequence[float]) -> Quantiles:
    """Nearest rank, so that every number shown was measured."""
    ranked = sorted(values)
    return Quantiles(
        p50=percentile(ranked, 0.50),
        p99=percentile(ranked, 0.99),
        max=ranked[-1] if ranked else None,
        count=len(ranked),
    )


def percentile(ranked: Sequence[float], share: float) -> float | None:
    """Of values in ascending order; None of nothing."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else None
