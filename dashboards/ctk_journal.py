"""A run's verdict in the shape of a Chaos Toolkit journal, for tools that read those.

Faults are actions of ``run``, their heals ``rollbacks``, checks the probes of ``steady_states.after``. What
only our verdict has stays in each activity's ``output``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from chaos.records import RunInfo
from chaos.verdict import CheckResult, CheckStatus, FaultVerdict, RunStatus, Verdict
from dashboards.errors import DashboardError


class Provider(Struct, frozen=True, kw_only=True):
    type: str = "python"
    module: str
    func: str
    arguments: dict[str, str | int | float]


class Activity(Struct, frozen=True, kw_only=True):
    type: str
    name: str
    provider: Provider
    tolerance: bool | None = None


class ActivityRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Times are ISO 8601 in UTC, durations seconds. ``status``: succeeded or failed."""

    activity: Activity
    output: str
    start: str
    status: str
    end: str
    duration: float
    tolerance_met: bool | None = None


class SteadyState(Struct, frozen=True, kw_only=True):
    steady_state_met: bool | None
    probes: tuple[ActivityRun, ...]


class SteadyStates(Struct, frozen=True, kw_only=True):
    before: SteadyState | None
    after: SteadyState
    during: tuple[SteadyState, ...] = ()


class Experiment(Struct, frozen=True, kw_only=True):
    title: str
    description: str
    method: tuple[Activity, ...]
    rollbacks: tuple[Activity, ...]


class Journal(Struct, frozen=True, kw_only=True, rename={"chaoslib_version": "chaoslib-version"}):
    """``status``: completed, failed (the run proves nothing), aborted (a guard) or interrupted."""

    chaoslib_version: str
    platform: str
    node: str
    experiment: Experiment
    start: str
    status: str
    deviated: bool
    steady_states: SteadyStates
    run: tuple[ActivityRun, ...]
    rollbacks: tuple[ActivityRun, ...]
    end: str
    duration: float


_STATUS = {
    RunStatus.PASSED: "completed",
    RunStatus.FAILED: "completed",
    RunStatus.RESIDUE: "failed",
    RunStatus.HALTED: "aborted",
    RunStatus.INVALID: "failed",
}


def read_journal(run: Path) -> Journal:
    """Of a judged run directory. Raises `DashboardError`."""
    try:
        info = msgspec.json.decode((run / "run.json").read_bytes(), type=RunInfo)
        verdict = msgspec.json.decode((run / "verdict.json").read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError) as error:
        raise DashboardError(
            f"{run} is no judged run: {error}; try severance check {run}"
        ) from error
    return to_journal(info, verdict)


def to_journal(info: RunInfo, verdict: Verdict) -> Journal:
    clock = _Clock(info)
    acts = tuple(_fault(fault, clock) for fault in verdict.faults)
    heals = tuple(_heal(fault, clock) for fault in verdict.faults)
    begin_ns = info.clock.mono_ns
    end_ns = begin_ns + int(verdict.duration_s * 1e9)
    failed = any(check.status is CheckStatus.FAIL for check in verdict.checks)
    return Journal(
        chaoslib_version=f"severance-{info.versions.get('severance', 'unknown')}",
        platform=info.versions.get("system", ""),
        node=info.host,
        experiment=Experiment(
            title=verdict.scenario,
            description=verdict.reason,
            method=tuple(act.activity for act in acts),
            rollbacks=tuple(act.activity for act in heals),
        ),
        start=clock.text(begin_ns),
        status="interrupted" if info.interrupted else _STATUS[verdict.status],
        deviated=failed or verdict.status is RunStatus.HALTED,
        steady_states=SteadyStates(before=None, after=_checks(verdict, clock.text(end_ns))),
        run=acts,
        rollbacks=heals,
        end=clock.text(end_ns),
        duration=verdict.duration_s,
    )


class _Clock:
    """From the run's monotonic nanoseconds to wall time."""

    def __init__(self, info: RunInfo) -> None:
        self._offset_ns = info.clock.wall_ns - info.clock.mono_ns

    def text(self, mono_ns: int) -> str:
        return datetime.fromtimestamp((mono_ns + self._offset_ns) / 1e9, UTC).isoformat()


def _fault(fault: FaultVerdict, clock: _Clock) -> ActivityRun:
    """An action counts as succeeded only if it was seen: an unproven fault is a failed one."""
    begin_ns = fault.injected_at or 0
    end_ns = fault.healed_at or begin_ns
    proof = "proven" if fault.proven else "NOT PROVEN"
    return ActivityRun(
        activity=_activity("action", fault.id, fault.mode, fault),
        output=f"{proof}; {fault.exposed} requests exposed",
        start=clock.text(begin_ns),
        status="succeeded" if fault.proven else "failed",
        end=clock.text(end_ns),
        duration=(end_ns - begin_ns) / 1e9,
    )


def _heal(fault: FaultVerdict, clock: _Clock) -> ActivityRun:
    end_ns = fault.healed_at or fault.injected_at or 0
    took_ms = fault.heal_ms or 0.0
    return ActivityRun(
        activity=_activity("action", f"heal-{fault.id}", "heal", fault),
        output=f"{fault.heal_rung or 'not healed'} in {took_ms:.0f} ms",
        start=clock.text(end_ns - int(took_ms * 1e6)),
        status="succeeded" if fault.heal_rung else "failed",
        end=clock.text(end_ns),
        duration=took_ms / 1e3,
    )


def _activity(kind: str, name: str, func: str, fault: FaultVerdict) -> Activity:
    on = ", ".join((*fault.links, *fault.workers))
    provider = Provider(module="chaos.ctk", func=func, arguments={"on": on})
    return Activity(type=kind, name=name, provider=provider)


def _checks(verdict: Verdict, at: str) -> SteadyState:
    """Met only if the run passed; with nothing judged it is neither met nor missed."""
    met = verdict.status is RunStatus.PASSED if verdict.checks else None
    return SteadyState(
        steady_state_met=met, probes=tuple(_check(check, at) for check in verdict.checks)
    )


def _check(check: CheckResult, at: str) -> ActivityRun:
    """Unknown and unobservable are no met tolerance: they did not look."""
    provider = Provider(module="chaos.oracle", func=check.id, arguments={})
    return ActivityRun(
        activity=Activity(type="probe", name=check.id, provider=provider, tolerance=True),
        output=f"{check.status}: expected {check.expected}; observed {check.observed}",
        start=at,
        status="failed" if check.status is CheckStatus.UNKNOWN else "succeeded",
        end=at,
        duration=0.0,
        tolerance_met=check.status is CheckStatus.PASS,
    )
