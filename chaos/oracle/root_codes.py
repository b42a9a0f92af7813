"""The load driver's root span must tell the same story of an abort as the history and the workers."""

from __future__ import annotations

from chaos.oracle.abort_codes import ASKED, CLIENT_REASONS, codes_of
from chaos.oracle.evidence import RunEvidence
from chaos.oracle.findings import Findings
from chaos.oracle.requests import Request
from chaos.oracle.silenced import collector_away, spans_may_be_lost
from dashboards.spans import Span


def judge_root(evidence: RunEvidence, request: Request, findings: Findings) -> None:
    """For a request that the client or the server aborted."""
    roots = evidence.spans.roots.get(request.sent.trace_id, ())
    end_ns = request.end.end_ns if request.end else request.sent.sent_ns
    if not roots and collector_away(evidence, request.sent.sent_ns, end_ns):
        findings.exempt()
        return
    if not roots:
        findings.doubt("the load driver sent no root span", rid=request.rid)
        return
    root = roots[0]
    if root.text("pd.outcome") != "aborted":
        text = f"the root span says {root.text('pd.outcome')}, the history {request.outcome}"
        findings.fail(text, rid=request.rid, span=root)
        return
    wrong = _wrong_client(request, root) or _wrong_server(evidence, request, root)
    if wrong:
        findings.fail(f"root span: {wrong}", rid=request.rid, span=root)


def _wrong_client(request: Request, root: Span) -> str | None:
    kind = request.abort_kind
    if kind is None:
        return None
    reason, origin = root.text("pd.abort.reason"), root.text("pd.abort.origin")
    if reason not in ASKED[kind]:
        return f"reason {reason} for an abort by {kind}"
    return None if origin == "client" else f"origin {origin} for an abort by the client"


def _wrong_server(evidence: RunEvidence, request: Request, root: Span) -> str | None:
    """The reason that the client was told is one that a worker gave."""
    end = request.end
    if end is None or not request.server_aborted:
        return None
    reason = root.text("pd.abort.reason")
    if end.error_reason is None or end.error_reason in CLIENT_REASONS:
        return f"a server-side abort answered with reason {end.error_reason}"
    if reason != end.error_reason:
        return f"reason {reason}, the client was told {end.error_reason}"
    halves = evidence.spans.halves.get(request.rid, ())
    given = {codes_of(half, abort).reason for half in halves for abort in half.aborts}
    if reason in given or _may_lack_spans(evidence, request, end.end_ns):
        return None
    return f"reason {reason}, the workers gave {', '.join(sorted(given)) or 'none'}"


def _may_lack_spans(evidence: RunEvidence, request: Request, end_ns: int) -> bool:
    workers = evidence.plan.workers
    return spans_may_be_lost(evidence, workers, request.sent.sent_ns, end_ns)
