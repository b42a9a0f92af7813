"""Guards over what clients see: error rate, TTFT and ITL, goodput, burn rate.

A fault that is on (or was, ``grace_s`` ago) explains a breach of what it silences; ``judge_faults`` asks
to be halted anyway: then the guard bounds how much harm a fault may do. A guard that has too few requests
to judge by says nothing; that nothing comes at all is `NoDataGuard`'s to say.
"""

from __future__ import annotations

from chaos.codes import Signal
from chaos.fault_step import ActiveFaults
from chaos.guard import Trip
from chaos.slo import Recent, error_share, percentile
from chaos.spec import BurnRate, ErrorRate, Goodput, LatencyP99
from loadtest.history import Outcome


class ErrorRateGuard:
    """Share of the requests of a window that failed on the server's side."""

    def __init__(self, spec: ErrorRate, recent: Recent, active: ActiveFaults) -> None:
        self._spec, self._recent, self._active = spec, recent, active

    def check(self) -> Trip | None:
        spec = self._spec
        done = self._recent.within(spec.window_s)
        if len(done) < spec.min_requests or _explained(self._active, Signal.ERRORS, spec):
            return None
        share = error_share(done)
        if share <= spec.max_share:
            return None
        text = f"{share:.0%} of {len(done)} requests failed in {spec.window_s:g} s"
        return Trip(guard="error_rate", value=share, limit=spec.max_share, detail=text)


class LatencyGuard:
    """p99 of TTFT or ITL against this run's own baseline, or a limit in milliseconds."""

    def __init__(self, spec: LatencyP99, recent: Recent, active: ActiveFaults) -> None:
        self._spec, self._recent, self._active = spec, recent, active

    def check(self) -> Trip | None:
        spec = self._spec
        values = self._values(baseline=False)
        limit_ms = self._limit_ms()
        few = len(values) < spec.min_requests
        if few or limit_ms is None or _explained(self._active, Signal.LATENCY, spec):
            return None
        worst_ms = percentile(values, 0.99) or 0.0
        if worst_ms <= limit_ms:
            return None
        text = f"p99 of {spec.of} is {worst_ms:.0f} ms over {len(values)} requests"
        return Trip(guard=f"{spec.of}_p99", value=worst_ms, limit=limit_ms, detail=text)

    def _limit_ms(self) -> float | None:
        spec = self._spec
        if spec.max_ms is not None:
            return spec.max_ms
        before = self._values(baseline=True)
        worst_ms = percentile(before, 0.99)
        if worst_ms is None or len(before) < spec.min_requests:
            return None
        return worst_ms * spec.times_baseline

    def _values(self, baseline: bool) -> list[float]:
        done = self._recent.baseline if baseline else self._recent.within(self._spec.window_s)
        picked = (one.ttft_ms if self._spec.of == "ttft" else one.itl_ms for one in done)
        return [value for value in picked if value is not None]


class GoodputGuard:
    """Completed requests a second, as a share of this run's own baseline."""

    def __init__(self, spec: Goodput, recent: Recent, active: ActiveFaults) -> None:
        self._spec, self._recent, self._active = spec, recent, active

    def check(self) -> Trip | None:
        spec = self._spec
        before = self._recent.baseline_rate
        first_ns = self._active.first_on_ns
        if before is None or first_ns is None or _explained(self._active, Signal.GOODPUT, spec):
            return None
        if len(self._recent.baseline) < spec.min_requests or self._active.age_s < spec.window_s:
            return None
        done = self._recent.within(spec.window_s)
        rate = sum(one.outcome is Outcome.COMPLETED for one in done) / spec.window_s
        share = rate / before
        if share >= spec.min_share:
            return None
        text = f"{rate:.2f} requests/s complete, {before:.2f} before the first fault"
        return Trip(guard="goodput", value=share, limit=spec.min_share, detail=text)


class BurnRateGuard:
    """The error budget burns ``max_rate`` times too fast, in a long window and in a short one: the long one
    says that it matters, the short one that it still goes on."""

    def __init__(self, spec: BurnRate, recent: Recent, active: ActiveFaults) -> None:
        self._spec, self._recent, self._active = spec, recent, active

    def check(self) -> Trip | None:
        spec = self._spec
        windows = [self._recent.within(spec.long_s), self._recent.within(spec.short_s)]
        few = len(windows[0]) < spec.min_requests or not windows[1]
        if few or _explained(self._active, Signal.ERRORS, spec):
            return None
        budget = 1 - spec.objective
        rate = min(error_share(done) for done in windows) / budget
        if rate <= spec.max_rate:
            return None
        text = (
            f"errors come {rate:.1f} times as fast as an objective of {spec.objective:.2%} allows"
        )
        return Trip(guard="burn_rate", value=rate, limit=spec.max_rate, detail=text)


def _explained(
    active: ActiveFaults, signal: Signal, spec: ErrorRate | LatencyP99 | Goodput | BurnRate
) -> bool:
    return not spec.judge_faults and active.silenced(signal, spec.grace_s)
