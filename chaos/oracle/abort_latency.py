"""`abort_latency` and `min_aborts`: aborts act fast enough, and enough of them were tried."""

from __future__ import annotations

from collections import Counter

from chaos.oracle.abort_rows import (
    Taken,
    abort_rows,
    released_after_ms,
    seen_after_ms,
    taken_aborts,
)
from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.oracle.requests import Request
from chaos.oracle.summary import summarize_aborts
from loadtest.history import AbortKind


@check(
    "abort_latency",
    "each half sees a client's abort and releases in time",
    Source.SCENARIO,
    Source.HISTORY,
    Source.SPANS,
)
def check_abort_latency(evidence: RunEvidence, findings: Findings) -> None:
    """No cut excuses a half: a client's abort comes by HTTP, and a cut link must not block it. Only a
    worker that a fault had stopped could not look."""
    expect = evidence.plan.expect
    findings.expected = (
        f"each half sees a client's abort within {expect.abort_seen_ms:g} ms and releases within "
        f"{expect.abort_release_ms:g} ms"
    )
    findings.noun = "aborted halves"
    for request in evidence.requests:
        if request.abort_kind is not None:
            for taken in taken_aborts(evidence, request):
                _judge(evidence, request, taken, findings)
    summary = summarize_aborts(abort_rows(evidence))
    seen, released = summary.act_to_seen_ms.p99, summary.received_to_released_ms.p99
    if seen is not None and released is not None:
        findings.note = f"p99: seen {seen:.1f} ms, released {released:.1f} ms"


def _judge(evidence: RunEvidence, request: Request, taken: Taken, findings: Findings) -> None:
    expect, where = evidence.plan.expect, taken.half.worker
    seen_ms, released_ms = seen_after_ms(request, taken), released_after_ms(taken)
    if released_ms is None:
        findings.doubt(f"{where}: an abort span without stamps", rid=request.rid)
        return
    if _was_stopped(evidence, request, taken):
        findings.exempt()
        return
    findings.saw()
    if seen_ms is not None and seen_ms > expect.abort_seen_ms:
        findings.fail(f"{where} saw the abort after {seen_ms:.0f} ms", rid=request.rid)
    if released_ms > expect.abort_release_ms:
        findings.fail(f"{where} released after {released_ms:.0f} ms", rid=request.rid)


def _was_stopped(evidence: RunEvidence, request: Request, taken: Taken) -> bool:
    """Between the client's act and the release."""
    end, released_ns = request.end, taken.codes.released_ns
    if end is None or end.abort is None or released_ns is None:
        return False
    return any(
        fault.stops_worker
        and taken.half.worker in fault.workers
        and fault.overlaps(end.abort.fired_ns, released_ns)
        for fault in evidence.faults
    )


@check(
    "min_aborts",
    "enough aborts of each kind and in each stage",
    Source.SCENARIO,
    Source.HISTORY,
    Source.SPANS,
)
def check_min_aborts(evidence: RunEvidence, findings: Findings) -> None:
    """Too few is unknown, not a failure: the deployment is not to blame."""
    expect, rows = evidence.plan.expect, abort_rows(evidence)
    kinds = Counter(row.kind for row in rows)
    stages = Counter(row.stage_seen or "unknown" for row in rows)
    wanted = {
        "aborts": (len(rows), expect.min_aborts),
        **{f"by {kind}": (kinds[kind], expect.min_per_kind) for kind in AbortKind},
        "in mid_chunk": (stages["mid_chunk"], expect.min_mid_chunk),
        "in transfer or bootstrap": (
            sum(stages[name] for name in ("transfer", "decode_transfer", "bootstrap")),
            expect.min_transfer_or_bootstrap,
        ),
        "in decode": (
            sum(stages[name] for name in ("running", "decode_waiting")),
            expect.min_decode,
        ),
    }
    findings.noun = "aborts"
    findings.expected = ", ".join(f"{least} {what}" for what, (_, least) in wanted.items() if least)
    findings.note = ", ".join(f"{count} {what}" for what, (count, _) in wanted.items())
    findings.saw(len(rows))
    for what, (count, least) in wanted.items():
        if count < least:
            findings.doubt(f"{count} {what}, {least} wanted")
