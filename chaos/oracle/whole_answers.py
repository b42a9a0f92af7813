"""`whole_answers`: an answer that counts as completed is one: it says why it ended and lacks no token."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from loadtest.history import End

_REASONS = ("stop", "length")


@check(
    "whole_answers",
    "a completed answer ends by stop or length, and one by length has max_new_tokens tokens",
    Source.HISTORY,
)
def check_whole_answers(evidence: RunEvidence, findings: Findings) -> None:
    """HTTP 200 proves nothing."""
    findings.noun = "completed requests"
    for request in evidence.requests:
        if request.completed and request.end is not None:
            _whole(request.end, request.sent.max_new_tokens, findings)


def _whole(end: End, max_new_tokens: int, findings: Findings) -> None:
    if end.completion_tokens is None:
        findings.doubt("completed, but the answer claims no number of tokens", rid=end.rid)
        return
    findings.saw()
    if end.finish_reason not in _REASONS:
        findings.fail(f"completed with finish_reason {end.finish_reason}", rid=end.rid)
    elif end.osl == 0 or end.osl > max_new_tokens:
        findings.fail(f"completed with {end.osl} of {max_new_tokens} tokens", rid=end.rid)
    elif end.finish_reason == "length" and end.osl != max_new_tokens:
        findings.fail(f"ended by length after {end.osl} of {max_new_tokens} tokens", rid=end.rid)
