"""`bystanders`: what no fault and no abort touched is not slower than before.

::

    load begins           first fault                                        load ends
    ├──── baseline ───────┤███ fault ███├── tail ──┤
                          ├────────── bystanders: of other pairs at once, of the hurt ones later ───┤

A request is touched if somebody aborted it, if it failed, or if a fault (or the time in which a pair may
recover from it) lay on its way. A run without faults has no before: there the baseline are requests due
while no abort was near, and bystanders those due beside somebody else's abort.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from msgspec import Struct

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.fault_window import TELEMETRY
from chaos.oracle.findings import Findings, check
from chaos.oracle.paths import may_meet
from chaos.oracle.requests import Request
from chaos.oracle.summary import percentile
from chaos.verdict import Bystanders, LatencyPair

MIN_BASELINE = 10
"""Fewer show no 95th percentile; the scenario says how many bystanders it wants."""
_NEAR_NS = 1_000_000_000


class Groups(Struct, frozen=True, kw_only=True):
    baseline: tuple[Request, ...]
    bystanders: tuple[Request, ...]
    touched: int


@check(
    "bystanders",
    "requests that no fault and no abort touched are not slower than this run's baseline",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    wants=(Source.SPANS,),
)
def check_bystanders(evidence: RunEvidence, findings: Findings) -> None:
    """Asked for by ``expect.min_bystanders``; a run that is too small for it is unknown."""
    expect, groups = evidence.plan.expect, find_groups(evidence)
    factor, least = expect.bystander_factor, expect.min_bystanders
    findings.expected = (
        f"p95 of TTFT and ITL of at least {least} untouched requests is at most {factor:g} x the "
        f"baseline's"
    )
    findings.noun = "bystanders"
    findings.saw(len(groups.bystanders))
    findings.exempt(groups.touched)
    if len(groups.baseline) < MIN_BASELINE:
        findings.doubt(f"{len(groups.baseline)} requests make a baseline, {MIN_BASELINE} wanted")
    if len(groups.bystanders) < least:
        findings.doubt(f"{len(groups.bystanders)} bystanders, {least} wanted")
    figures = measure(groups)
    findings.note = f"TTFT {_words(figures.ttft_p95_ms)}, ITL {_words(figures.itl_p95_ms)}"
    for name, pair in (("TTFT", figures.ttft_p95_ms), ("ITL", figures.itl_p95_ms)):
        _judge(name, pair, factor, len(groups.bystanders) >= least, findings)


def _judge(name: str, pair: LatencyPair, factor: float, enough: bool, findings: Findings) -> None:
    ratio = pair.ratio
    if ratio is None:
        findings.doubt(f"no p95 of {name} on one of the two sides")
    elif ratio > factor and enough:
        findings.fail(f"p95 of {name} is {ratio:.2f} x the baseline's: {_words(pair)}")


def find_groups(evidence: RunEvidence) -> Groups:
    """Completed and untouched requests, before and after."""
    untouched = [one for one in evidence.requests if one.completed and not _touched(evidence, one)]
    is_before, is_after = _sides(evidence)
    return Groups(
        baseline=tuple(one for one in untouched if is_before(one)),
        bystanders=tuple(one for one in untouched if is_after(one)),
        touched=len(evidence.requests) - len(untouched),
    )


def measure(groups: Groups) -> Bystanders:
    """The figures, whether anybody asked for a judgement or not."""
    return Bystanders(
        count=len(groups.bystanders),
        baseline_count=len(groups.baseline),
        ttft_p95_ms=_pair(groups, ttft_ms),
        itl_p95_ms=_pair(groups, itl_ms),
    )


def ttft_ms(request: Request) -> float | None:
    """From the due time, as the load driver counts."""
    end = request.end
    if end is None or end.first_ns is None:
        return None
    return (end.first_ns - request.sent.scheduled_ns) / 1e6


def itl_ms(request: Request) -> float | None:
    """Mean time between the tokens of one request."""
    end = request.end
    if end is None or end.first_ns is None or end.last_ns is None or end.osl < 2:
        return None
    return (end.last_ns - end.first_ns) / 1e6 / (end.osl - 1)


def _pair(groups: Groups, of: Callable[[Request], float | None]) -> LatencyPair:
    return LatencyPair(baseline=_p95(groups.baseline, of), bystanders=_p95(groups.bystanders, of))


def _p95(requests: Sequence[Request], of: Callable[[Request], float | None]) -> float | None:
    return percentile(sorted(ms for one in requests if (ms := of(one)) is not None), 0.95)


def _touched(evidence: RunEvidence, request: Request) -> bool:
    """Aborted at its end or while it was answered, or with a fault on its way."""
    end = request.end
    if end is None or end.abort is not None:
        return True
    after_s = evidence.plan.expect.recovery_first_success_s
    return any(
        fault.kind != TELEMETRY  # which must slow nobody
        and fault.overlaps(request.sent.sent_ns, end.end_ns, after_s)
        and may_meet(evidence, fault, request.rid)
        for fault in evidence.faults
    )


def _sides(
    evidence: RunEvidence,
) -> tuple[Callable[[Request], bool], Callable[[Request], bool]]:
    """By due time alone, so that neither side is richer in long requests."""
    begins = [fault.begin_ns for fault in evidence.faults if fault.begin_ns is not None]
    if begins:
        first_ns = min(begins)
        return (
            lambda one: one.end is not None and one.end.end_ns < first_ns,
            lambda one: one.sent.scheduled_ns >= first_ns,
        )
    aborts = sorted(
        end.abort.fired_ns for one in evidence.requests for end in one.ends if end.abort
    )
    return (
        lambda one: not _is_near(aborts, one.sent.scheduled_ns),
        lambda one: _is_near(aborts, one.sent.scheduled_ns),
    )


def _is_near(moments: Sequence[int], at_ns: int) -> bool:
    index = bisect_left(moments, at_ns - _NEAR_NS)
    return index < len(moments) and moments[index] <= at_ns + _NEAR_NS


def _words(pair: LatencyPair) -> str:
    if pair.baseline is None or pair.bystanders is None:
        return "unknown"
    return f"{pair.bystanders:.1f} ms against {pair.baseline:.1f} ms"
