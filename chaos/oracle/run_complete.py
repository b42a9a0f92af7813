"""`run_complete`: the run went to its end, and its files are whole, of one run, one host and one clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.records import EventKind, RunInfo

_PHASES = (
    "setup",
    "baseline",
    "warmup",
    "load",
    "drain",
    "final",
    "probe",
    "control",
    "teardown",
    "done",
)
_WITHOUT_CONTROL = tuple(name for name in _PHASES if name != "control")
_CLOCK_NS = 500_000_000
"""How far the wall clock may drift from the monotonic one: beyond that, span times mean nothing."""

_LASTED = 0.7
"""Least share of the load's planned length: its last request may be due a little before the end."""

Stamp = tuple[str, str, str]
"""File, host, run id."""


@check(
    "run_complete",
    "the run finished; every file is there, of one run, one host and one clock",
    Source.RUN,
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    Source.EVENTS,
    wants=(Source.LEDGER, Source.SPANS),
)
def check_run_complete(evidence: RunEvidence, findings: Findings) -> None:
    """Anything amiss is a doubt about the evidence, not a failure of the deployment."""
    findings.noun = "records"
    info = evidence.info
    assert info is not None
    for doubt in (*_unfinished(evidence, info), *_mixed(evidence, info), *_clock(evidence, info)):
        findings.doubt(doubt)
    findings.saw(sum(1 for _ in _stamps(evidence)))


def _unfinished(evidence: RunEvidence, info: RunInfo) -> Iterator[str]:
    if not info.finished:
        yield "the runner did not get to the end of its plan"
    if info.scenario != evidence.plan.name:
        yield f"run.json is of {info.scenario}, the scenario file of {evidence.plan.name}"
    if info.seed != evidence.plan.seed:
        yield f"run.json has seed {info.seed}, the scenario file {evidence.plan.seed}"
    lasted_s = (evidence.load_end_ns - evidence.load_begin_ns) / 1e9
    if lasted_s < _LASTED * evidence.plan.load.duration_s:
        yield f"the load lasted {lasted_s:.1f} s of {evidence.plan.load.duration_s:g} s"
    has_control = evidence.plan.expect.control_requests and evidence.can_show(Source.CONTROL)
    wanted = _PHASES if has_control else _WITHOUT_CONTROL
    for name in wanted:
        if info.finished and len(evidence.phase_times(name)) != 1:
            yield f"phase {name} was begun {len(evidence.phase_times(name))} times"
    phases = [at for name in _PHASES for at in evidence.phase_times(name)]
    if phases != sorted(phases):
        yield "the phases are out of order"
    for event in evidence.events:
        if event.kind is EventKind.GUARD and event.ok is False and not info.halted_by:
            yield f"guard {event.name} tripped, yet run.json says nothing of it"


def _mixed(evidence: RunEvidence, info: RunInfo) -> Iterator[str]:
    """Times of two hosts are never subtracted, and records of two runs never joined."""
    foreign = {stamp for stamp in _stamps(evidence) if stamp[2] != info.run_id}
    for file, _, run_id in sorted(foreign):
        yield f"{file} holds records of run {run_id}, this is {info.run_id}"
    for file, host, _ in sorted({stamp for stamp in _stamps(evidence) if stamp[1] != info.host}):
        yield f"{file} holds records of host {host}, the run was on {info.host}"


def _stamps(evidence: RunEvidence) -> Iterator[Stamp]:
    for request in (*evidence.history.requests, *evidence.control.requests):
        yield "history", request.sent.host, request.sent.run_id
    for fault in evidence.fault_records:
        yield Source.FAULTS, fault.host, fault.run_id
    for sample in evidence.samples:
        yield Source.LEDGER, sample.host, sample.run_id
    for event in evidence.events:
        yield Source.EVENTS, event.host, event.run_id


def _clock(evidence: RunEvidence, info: RunInfo) -> Iterator[str]:
    expected = info.clock.wall_ns - info.clock.mono_ns
    drift = max((abs(wall - at - expected) for at, wall in _clock_pairs(evidence)), default=0)
    if drift > _CLOCK_NS:
        yield f"wall and monotonic clock drifted apart by {drift / 1e9:.1f} s during the run"


def _clock_pairs(evidence: RunEvidence) -> Iterable[tuple[int, int]]:
    yield from ((event.at_ns, event.wall_ns) for event in evidence.events)
    yield from ((sample.at_ns, sample.wall_ns) for sample in evidence.samples)
