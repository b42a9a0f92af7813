"""Small changes to a healthy run, each of which some check must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from chaos.records import FaultEvent, FaultRecord, LedgerSample, WorkerLedger
from dashboards.spans import AttributeValue, Span
from loadtest.history import End, Outcome, Sent
from tests.chaos.oracle.builder import HealthyRun

T = TypeVar("T", bound=Struct)


def change(records: list[T], which: Callable[[T], bool], **fields: object) -> None:
    """Change fields of every record that fits; at least one must."""
    found = [index for index, record in enumerate(records) if which(record)]
    assert found, "the mutation hit nothing"
    for index in found:
        records[index] = replace(records[index], **fields)


def drop(records: list[T], which: Callable[[T], bool]) -> None:
    kept = [record for record in records if not which(record)]
    assert len(kept) < len(records), "the mutation hit nothing"
    records[:] = kept


def is_end(rid: str) -> Callable[[Sent | End], bool]:
    return lambda record: isinstance(record, End) and record.rid == rid


def is_sent(rid: str) -> Callable[[Sent | End], bool]:
    return lambda record: isinstance(record, Sent) and record.rid == rid


def rid_of(run: HealthyRun, outcome: Outcome, nth: int = 3) -> str:
    """The nth request with this outcome, away from the edges of the run."""
    return [r.rid for r in run.history if isinstance(r, End) and r.outcome is outcome][nth]


def end_of(run: HealthyRun, rid: str) -> End:
    return next(r for r in run.history if isinstance(r, End) and r.rid == rid)


def change_end(run: HealthyRun, rid: str, **fields: object) -> None:
    change(run.history, is_end(rid), **fields)


def is_span(name: str, rid: str, role: str) -> Callable[[Span], bool]:
    return lambda span: (
        span.name == name
        and span.text("pd.rid") == rid
        and span.text("pd.role") == role
        and not span.trace_id.startswith("000000000000000000000000c")
    )


def change_span(
    run: HealthyRun,
    which: Callable[[Span], bool],
    attributes: dict[str, AttributeValue | None] | None = None,
    **fields: object,
) -> None:
    """``attributes``: new values; None takes the attribute away."""
    found = [index for index, span in enumerate(run.spans) if which(span)]
    assert found, "the mutation hit nothing"
    for index in found:
        merged = {**run.spans[index].attributes, **(attributes or {})}
        kept = {key: value for key, value in merged.items() if value is not None}
        run.spans[index] = replace(run.spans[index], attributes=kept, **fields)


def set_reason(run: HealthyRun, rid: str, role: str, reason: str, *, error: bool) -> None:
    """A consistent abort with another reason, on the role span and the abort span."""
    codes: dict[str, AttributeValue | None] = {
        "pd.abort.reason": reason,
        "pd.abort.origin": "server" if error else "client",
        "error.type": reason if error else None,
    }
    for name in ("request", "abort"):
        status = "error" if error else "unset"
        change_span(run, is_span(name, rid, role), codes, status=status)


def change_ledger(run: HealthyRun, which: Callable[[LedgerSample], bool], **fields: object) -> None:
    found = [i for i, s in enumerate(run.samples) if which(s) and s.ledger is not None]
    assert found, "the mutation hit nothing"
    for index in found:
        sample = run.samples[index]
        assert sample.ledger is not None
        run.samples[index] = replace(sample, ledger=replace(sample.ledger, **fields))


def is_final(worker: str) -> Callable[[LedgerSample], bool]:
    return lambda sample: sample.phase == "final" and sample.worker == worker


def final_ledger(run: HealthyRun, worker: str) -> WorkerLedger:
    ledger = next(sample.ledger for sample in run.samples if is_final(worker)(sample))
    assert ledger is not None
    return ledger


def is_fault(fault_id: str, *events: FaultEvent) -> Callable[[FaultRecord], bool]:
    return lambda record: record.fault_id == fault_id and (not events or record.event in events)
