"""`verdict.json` and `aborts.jsonl`: what the oracle writes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

Struct = msgspec.Struct
VERDICT_SCHEMA = "severance.verdict/1"


class RunStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    HALTED = "halted"
    INVALID = "invalid"
    RESIDUE = "residue"


class CheckStatus(StrEnum):
    """``REPORTED``: it did not pass, and the scenario had asked for a report, not for a judgement."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    UNOBSERVABLE = "unobservable"
    REPORTED = "reported"


class Evidence(Struct, frozen=True, kw_only=True):
    rid: str | None = None
    span_id: str | None = None
    value: str = ""


class CheckResult(Struct, frozen=True, kw_only=True):
    """``examined`` 0 is never a pass. ``exempted``: how many cases a fault explained away.

    ``kinds``: the kinds of evidence that it needs (history, spans, ledger, metrics, control run).
    """

    id: str
    status: CheckStatus
    examined: int
    expected: str
    observed: str
    evidence: tuple[Evidence, ...] = ()
    exempted: int = 0
    kinds: tuple[str, ...] = ()


class FaultVerdict(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    links: tuple[str, ...]
    mode: str
    proven: bool
    exposed: int
    injected_at: int | None
    healed_at: int | None
    heal_rung: str | None
    heal_ms: float | None
    workers: tuple[str, ...] = ()
    first_success_ms: float | None = None
    goodput_share: float | None = None
    goodput_back_ms: float | None = None


class RequestCounts(Struct, frozen=True, kw_only=True):
    """total == completed + sum(aborted) + sum(aborted_server) + sum(failed); hung is under failed."""

    total: int
    completed: int
    aborted: dict[str, int]
    aborted_server: dict[str, int]
    failed: dict[str, int]


class Quantiles(Struct, frozen=True, kw_only=True):
    p50: float | None
    p99: float | None
    max: float | None
    count: int = 0


class AbortSummary(Struct, frozen=True, kw_only=True):
    count: int
    by_stage: dict[str, int]
    act_to_seen_ms: Quantiles
    received_to_released_ms: Quantiles
    wasted_tokens: int


class LedgerSummary(Struct, frozen=True, kw_only=True):
    """Free counts by worker and resource, e.g. baseline["p0"]["kv_pages"]."""

    baseline: dict[str, dict[str, int]]
    workers: dict[str, dict[str, int]]


class LatencyPair(Struct, frozen=True, kw_only=True):
    """The same percentile of two groups; None: nobody to measure."""

    baseline: float | None
    bystanders: float | None

    @property
    def ratio(self) -> float | None:
        if self.baseline is None or self.bystanders is None or self.baseline <= 0:
            return None
        return self.bystanders / self.baseline


class Bystanders(Struct, frozen=True, kw_only=True):
    """Requests that no fault and no abort touched, beside those before the first fault."""

    count: int
    baseline_count: int
    ttft_p95_ms: LatencyPair
    itl_p95_ms: LatencyPair


class RouterTime(Struct, frozen=True, kw_only=True):
    """Time in which requests were open and at no worker. ``retries``: tries beyond the first.

    ``never_dispatched``: no worker had them (an open breaker, nobody healthy). ``unclear``: left out,
    because a worker died with their spans or their client left at once.
    """

    requests: int
    unclear: int
    ms: Quantiles
    total_ms: float
    retries: int
    never_dispatched: int


class Coverage(Struct, frozen=True, kw_only=True):
    """What could not be looked at, and what was excused. ``cannot_show``: kinds of evidence that this
    target does not have; ``unobservable``: the checks that need them."""

    checks: int
    examined: int
    exempted: int
    unobservable: tuple[str, ...]
    cannot_show: tuple[str, ...]


class Verdict(Struct, frozen=True, kw_only=True):
    schema: str
    scenario: str
    status: RunStatus
    exit_code: int
    seed: int
    checks: tuple[CheckResult, ...]
    faults: tuple[FaultVerdict, ...]
    requests: RequestCounts
    aborts: AbortSummary
    ledger: LedgerSummary
    residue: tuple[str, ...]
    duration_s: float
    run_id: str = ""
    reason: str = ""
    bystanders: Bystanders | None = None
    router: RouterTime | None = None
    coverage: Coverage | None = None


class AbortRow(Struct, frozen=True, kw_only=True):
    """One line of `aborts.jsonl`: a client's abort, joined with what the servers did."""

    rid: str
    kind: str
    stage_seen: str | None
    act_to_seen_ms: float | None
    received_to_released_ms: dict[str, float]
    wasted_prefill_tokens: int
    wasted_decode_tokens: int
    trace_id: str
    reason: str | None = None
