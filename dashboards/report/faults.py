"""Faults as intervals: the journal's records of one fault, folded together with its verdict."""

from __future__ import annotations

import msgspec

from chaos.records import FaultEvent, FaultRecord
from chaos.verdict import FaultVerdict
from dashboards.report.clock import RunClock
from dashboards.run_dir import Run

_ON = (FaultEvent.INJECTED, FaultEvent.INJECTING)


class FaultView(msgspec.Struct, frozen=True, kw_only=True):
    """``start_s`` None: never injected. ``end_s`` None: never healed. ``journal``: last event written."""

    id: str
    kind: str
    mode: str
    links: tuple[str, ...]
    workers: tuple[str, ...]
    start_s: float | None
    end_s: float | None
    journal: str
    rung: str | None
    heal_ms: float | None
    proof: str
    permits: tuple[str, ...]
    verdict: FaultVerdict | None

    @property
    def label(self) -> str:
        targets = " + ".join((*self.links, *self.workers))
        return " ".join(part for part in (self.mode or self.kind, targets) if part)

    @property
    def length_s(self) -> float | None:
        return None if self.start_s is None or self.end_s is None else self.end_s - self.start_s


def faults_of(run: Run, clock: RunClock) -> list[FaultView]:
    """In the order of the journal; without one, as the verdict lists them."""
    verdicts = {fault.id: fault for fault in (run.verdict.faults if run.verdict else ())}
    records: dict[str, list[FaultRecord]] = {}
    for record in run.faults:
        records.setdefault(record.fault_id, []).append(record)
    views = [_from_records(group, verdicts.get(key), clock) for key, group in records.items()]
    rest = [fault for key, fault in verdicts.items() if key not in records]
    return views + [_from_verdict(fault, clock) for fault in rest]


def _from_records(
    records: list[FaultRecord], verdict: FaultVerdict | None, clock: RunClock
) -> FaultView:
    last = records[-1]
    healed = _last(records, (FaultEvent.HEALED,))
    return FaultView(
        id=last.fault_id,
        kind=last.kind,
        mode=last.mode,
        links=last.links,
        workers=last.workers,
        start_s=_at(_last(records, _ON), clock),
        end_s=_at(healed, clock),
        journal=last.error or last.event.value,
        rung=healed.rung if healed else None,
        heal_ms=healed.heal_ms if healed else None,
        proof="; ".join(dict.fromkeys(record.proof for record in records if record.proof)),
        permits=last.permits,
        verdict=verdict,
    )


def _from_verdict(fault: FaultVerdict, clock: RunClock) -> FaultView:
    return FaultView(
        id=fault.id,
        kind=fault.kind,
        mode=fault.mode,
        links=fault.links,
        workers=fault.workers,
        start_s=None if fault.injected_at is None else clock.mono(fault.injected_at),
        end_s=None if fault.healed_at is None else clock.mono(fault.healed_at),
        journal="not in the journal",
        rung=fault.heal_rung,
        heal_ms=fault.heal_ms,
        proof="",
        permits=(),
        verdict=fault,
    )


def _last(records: list[FaultRecord], events: tuple[FaultEvent, ...]) -> FaultRecord | None:
    """The last record of the first kind of event that there is."""
    for event in events:
        found = [record for record in records if record.event is event]
        if found:
            return found[-1]
    return None


def _at(record: FaultRecord | None, clock: RunClock) -> float | None:
    return None if record is None else clock.wall(record.wall_ns)
