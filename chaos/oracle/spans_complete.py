"""`spans_complete` and `trace_joined`: no span is lost, and each request is one trace."""

from __future__ import annotations

from itertools import pairwise

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import killed_incarnations
from chaos.oracle.findings import Findings, check
from chaos.oracle.requests import Request
from chaos.oracle.silenced import collector_away, spans_may_be_lost
from chaos.oracle.span_index import DECODE, PREFILL, Half, incarnation_of, number, role_of
from dashboards.spans import Span

_STAGES = {
    PREFILL: frozenset({"prefill.chunk", "kv.transfer"}),
    DECODE: frozenset({"decode.wait_kv", "decode"}),
}
"""Stages that every completed request went through."""

Process = tuple[str, str]
"""Worker and incarnation."""


@check(
    "spans_complete",
    "no gap in any worker's span numbers, no orphan, role spans of both roles for each completed",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    Source.SPANS,
    wants=(Source.LEDGER,),
)
def check_spans_complete(evidence: RunEvidence, findings: Findings) -> None:
    """Lost spans make all that is said from spans unsure: unknown, never failed."""
    findings.noun = "spans"
    by_process: dict[Process, list[Span]] = {}
    for span in evidence.spans.spans:
        if role_of(span) is not None:
            by_process.setdefault((span.instance, incarnation_of(span)), []).append(span)
    for process, spans in by_process.items():
        _numbered(evidence, process, spans, findings)
    if evidence.can_show(Source.LEDGER):
        _known_processes(evidence, set(by_process), findings)
    _no_orphans(evidence, findings)
    for request in evidence.requests:
        if request.completed:
            _both_roles(evidence, request, findings)


def _numbered(
    evidence: RunEvidence, process: Process, spans: list[Span], findings: Findings
) -> None:
    """Numbers run from 0 without a gap; only the tail of a killed process may be missing, and what was
    sent while the collector was away."""
    name = f"{process[0]} ({process[1] or 'no incarnation'})"
    known = [(seq, span) for span in spans if (seq := number(span, "pd.seq")) is not None]
    numbered = sorted(known, key=lambda pair: pair[0])
    findings.saw(len(numbered))
    if len(numbered) < len(spans):
        findings.doubt(f"{name}: {len(spans) - len(numbered)} spans without pd.seq")
        return
    repeated = len(numbered) - len({seq for seq, _ in numbered})
    if repeated:
        findings.doubt(f"{name}: {repeated} span numbers given twice")
        return
    lost, excused = _lost(evidence, numbered)
    findings.exempt(excused)
    if lost:
        findings.doubt(f"{name}: {lost} of {numbered[-1][0] + 1} spans are lost")


def _lost(evidence: RunEvidence, numbered: list[tuple[int, Span]]) -> tuple[int, int]:
    """Missing numbers: those that nothing excuses, and those of a time without a collector."""
    mono = evidence.spans.mono
    lost, excused = numbered[0][0], 0  # nobody can say when the first ones were
    for (before, left), (after, right) in pairwise(numbered):
        missing = after - before - 1
        if missing and collector_away(evidence, mono(left.start_ns), mono(right.end_ns)):
            excused += missing
        else:
            lost += missing
    return lost, excused


def _known_processes(evidence: RunEvidence, with_spans: set[Process], findings: Findings) -> None:
    """Spans must come from the processes that showed their ledgers, and from each of those."""
    ledgers = {
        (sample.worker, sample.ledger.incarnation) for sample in evidence.samples if sample.ledger
    }
    for worker, incarnation in sorted(with_spans - ledgers):
        findings.doubt(f"spans of {worker} ({incarnation}), which never showed a ledger")
    silent = ledgers - with_spans - killed_incarnations(evidence.faults)
    for worker, incarnation in sorted(silent):
        findings.doubt(f"{worker} ({incarnation}) sent no span")


def _no_orphans(evidence: RunEvidence, findings: Findings) -> None:
    """Every parent is there, in the traces of the load's requests, unless it died with its worker."""
    requests = {request.sent.trace_id: request for request in evidence.requests}
    ids: dict[str, set[str]] = {}
    for span in evidence.spans.spans:
        ids.setdefault(span.trace_id, set()).add(span.span_id)
    dead = killed_incarnations(evidence.faults)
    for span in evidence.spans.spans:
        request = requests.get(span.trace_id)
        if request is None or not span.parent_span_id:
            continue
        if span.parent_span_id in ids[span.trace_id]:
            continue
        away = collector_away(evidence, request.sent.sent_ns, evidence.spans.mono(span.end_ns))
        if away or (span.instance, incarnation_of(span)) in dead:
            findings.exempt()
        else:
            findings.doubt(f"{span.name} has no parent", rid=request.rid, span=span)


def _both_roles(evidence: RunEvidence, request: Request, findings: Findings) -> None:
    plan, end = evidence.plan, request.end
    roles = ((PREFILL, plan.prefill_workers), (DECODE, plan.decode_workers))
    for role, workers in roles:
        if any(_is_whole(half) for half in evidence.spans.of(request.rid, role)):
            continue
        end_ns = end.end_ns if end else request.sent.sent_ns
        if spans_may_be_lost(evidence, workers, request.sent.sent_ns, end_ns):
            findings.exempt()
        else:
            text = f"completed, but no {role} worker sent its role span with all stages"
            findings.doubt(text, rid=request.rid)


def _is_whole(half: Half) -> bool:
    """The tail of a living worker's numbers has no gap to show; its stages show it."""
    names = {span.name for span in half.stages}
    return half.role_span is not None and _STAGES[half.role] <= names


@check(
    "trace_joined",
    "spans of load driver, prefill and decode of a request share one trace",
    Source.HISTORY,
    Source.SPANS,
)
def check_trace_joined(evidence: RunEvidence, findings: Findings) -> None:
    """Looks at completed requests; one whose spans are lost counts for `spans_complete`."""
    findings.noun = "completed requests"
    for request in evidence.requests:
        if request.completed:
            _joined(evidence, request, findings)


def _joined(evidence: RunEvidence, request: Request, findings: Findings) -> None:
    trace_id = request.sent.trace_id
    roots = evidence.spans.roots.get(trace_id, ())
    halves = evidence.spans.halves.get(request.rid, ())
    end_ns = request.end.end_ns if request.end else request.sent.sent_ns
    if not roots and collector_away(evidence, request.sent.sent_ns, end_ns):
        findings.exempt()
        return
    if len(roots) != 1:
        findings.doubt(f"{len(roots)} root spans of the load driver", rid=request.rid)
        return
    findings.saw()
    for half in halves:
        for span in half.role_spans:
            if span.trace_id != trace_id:
                text = f"{half.worker} put it into trace {span.trace_id}, not {trace_id}"
                findings.fail(text, rid=request.rid, span=span)
            elif span.parent_span_id != roots[0].span_id:
                text = f"the role span on {half.worker} is no child of the root span"
                findings.fail(text, rid=request.rid, span=span)
