"""`no_token_after_abort`: nothing is received or computed after the safe point that took the abort."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.oracle.span_index import Half, number
from dashboards.spans import Span
from loadtest.history import End

_WORK = ("prefill.chunk", "decode")
_MAX_CHUNKS = 2
"""Chunks that may begin between the HTTP side's knowing and the scheduler's safe point."""


@check(
    "no_token_after_abort",
    "tokens received = completion_tokens of the answer; no forward starts after an abort's release",
    Source.HISTORY,
    wants=(Source.SPANS,),
)
def check_no_token_after_abort(evidence: RunEvidence, findings: Findings) -> None:
    """Client side by index; server side by each worker's own clock, with no grace."""
    findings.noun = "answers and aborted halves"
    for request in evidence.requests:
        if request.end is not None:
            _by_index(request.end, findings)
        for half in evidence.spans.halves.get(request.rid, ()):
            for abort in half.aborts:
                _by_clock(half, abort, findings)


def _by_index(end: End, findings: Findings) -> None:
    if end.num_late_tokens:
        findings.fail(f"{end.num_late_tokens} tokens came after the final event", rid=end.rid)
    if end.completion_tokens is None:
        return
    findings.saw()
    if end.osl != end.completion_tokens:
        text = f"received {end.osl} tokens, the answer claims {end.completion_tokens}"
        findings.fail(text, rid=end.rid)
    elif end.output_ids and len(end.output_ids) != end.osl:
        text = f"received {end.osl} tokens, the answer lists {len(end.output_ids)}"
        findings.fail(text, rid=end.rid)


def _by_clock(half: Half, abort: Span, findings: Findings) -> None:
    """All times of one process share one clock offset, which the abort span itself shows."""
    received_ns = number(abort, "pd.abort.received_ns")
    released_ns = number(abort, "pd.abort.released_ns")
    if not released_ns or not received_ns:
        findings.doubt("an abort span without its monotonic stamps", rid=half.rid, span=abort)
        return
    if released_ns < received_ns:
        findings.doubt("released before it was received", rid=half.rid, span=abort)
        return
    findings.saw()
    offset_ns = abort.end_ns - released_ns
    knew_ns = received_ns + offset_ns
    chunks = [s for s in half.stages if s.name == "prefill.chunk" and s.start_ns > knew_ns]
    if len(chunks) > _MAX_CHUNKS:
        text = f"{half.worker} began {len(chunks)} chunks after it knew of the abort"
        findings.fail(text, rid=half.rid, span=chunks[-1])
    for span in half.stages:
        late_ns = span.start_ns - offset_ns - released_ns
        if span.name in _WORK and late_ns > 0:
            text = f"{span.name} on {half.worker} began {late_ns / 1e6:.3f} ms after the release"
            findings.fail(text, rid=half.rid, span=span)
