"""Time that requests spent in the router: open for their client, and at no worker. A number, no check.

Retries wait there between two tries, and an open breaker answers without asking anybody. Measured per
request: its time, less the time in which any worker had it.
"""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.requests import Request
from chaos.oracle.silenced import spans_may_be_lost
from chaos.oracle.span_index import Half
from chaos.oracle.summary import quantiles
from chaos.verdict import RouterTime

_BRIEF_NS = 1_000_000_000
"""A client that left this soon may never have got as far as a worker."""


def router_time(evidence: RunEvidence) -> RouterTime | None:
    """None where the target shows no spans, or where they are lost."""
    if not evidence.can_show(Source.SPANS) or evidence.gap(Source.SPANS) is not None:
        return None
    judged = [one for one in evidence.requests if not _is_unclear(evidence, one)]
    waits = {one.rid: _alone_ms(evidence, one) for one in judged}
    return RouterTime(
        requests=len(judged),
        unclear=len(evidence.requests) - len(judged),
        ms=quantiles(list(waits.values())),
        total_ms=sum(waits.values()),
        retries=sum(_num_retries(evidence, one) for one in judged),
        never_dispatched=sum(not evidence.spans.halves.get(one.rid) for one in judged),
    )


def _is_unclear(evidence: RunEvidence, request: Request) -> bool:
    """Its spans may have died with a worker, or it left before anybody could have had it."""
    end = request.end
    if end is None:
        return True
    sent_ns = request.sent.sent_ns
    if spans_may_be_lost(evidence, evidence.plan.workers, sent_ns, end.end_ns):
        return True
    gone_early = request.abort_kind is not None and end.end_ns - sent_ns < _BRIEF_NS
    return gone_early and not evidence.spans.halves.get(request.rid)


def _alone_ms(evidence: RunEvidence, request: Request) -> float:
    """Milliseconds of the request's life that no role span covers."""
    end = request.end
    assert end is not None
    at_ns, alone_ns = request.sent.sent_ns, 0
    for begin_ns, until_ns in _held(evidence, evidence.spans.halves.get(request.rid, ())):
        alone_ns += max(0, min(begin_ns, end.end_ns) - at_ns)
        at_ns = max(at_ns, until_ns)
    return (alone_ns + max(0, end.end_ns - at_ns)) / 1e6


def _held(evidence: RunEvidence, halves: tuple[Half, ...]) -> list[tuple[int, int]]:
    """When workers had it, in order of time."""
    mono = evidence.spans.mono
    return sorted(
        (mono(span.start_ns), mono(span.end_ns)) for half in halves for span in half.role_spans
    )


def _num_retries(evidence: RunEvidence, request: Request) -> int:
    rooms = {half.room for half in evidence.spans.halves.get(request.rid, ())}
    return max(0, len(rooms) - 1)
