"""`ledger_baseline`: everything is given back on every worker, and the books balance all the time."""

from __future__ import annotations

from chaos.oracle.evidence import RunEvidence, Source
from chaos.oracle.findings import Findings, check
from chaos.oracle.ledger_samples import incarnations_agree, judge_cover, worker_names
from chaos.records import LedgerSample, WorkerLedger

REQUIRED = ("kv_pages", "req_slots")


@check(
    "ledger_baseline",
    "at the end every resource is free as at baseline on every worker; the books balance throughout",
    Source.SCENARIO,
    Source.HISTORY,
    Source.FAULTS,
    Source.LEDGER,
)
def check_ledger_baseline(evidence: RunEvidence, findings: Findings) -> None:
    """Free counts from the allocators, held counts from the ledger, queues, rooms and open requests."""
    findings.noun = "ledger samples"
    for sample in evidence.samples:
        if sample.ledger is not None:
            findings.saw()
            _books(sample, sample.ledger, findings)
    for worker in worker_names(evidence):
        judge_cover(evidence, worker, findings)
        _worker(evidence, worker, findings)


def _books(sample: LedgerSample, ledger: WorkerLedger, findings: Findings) -> None:
    """Laws that hold in every sample."""
    where = f"{sample.worker} ({sample.phase}, step {ledger.step})"
    for broken in ledger.conservation:
        findings.fail(f"{where}: {broken}")
    if ledger.double_frees:
        findings.fail(f"{where}: {ledger.double_frees} double frees")
    for name, count in ledger.resources.items():
        if count.free + count.held != count.total:
            text = f"{name}: {count.free} free + {count.held} held, of {count.total}"
            findings.fail(f"{where}: {text}")


def _worker(evidence: RunEvidence, worker: str, findings: Findings) -> None:
    baseline = _last(evidence, worker, "baseline")
    final = _last(evidence, worker, "final")
    if baseline is None or baseline.ledger is None:
        findings.doubt(f"{worker} has no baseline sample")
        return
    if final is None or final.ledger is None:
        findings.doubt(f"{worker} has no final sample")
        return
    if final.at_ns < evidence.last_end_ns or baseline.at_ns > evidence.load_begin_ns:
        findings.doubt(f"{worker}: baseline and final samples do not enclose the load")
        return
    incarnations_agree(evidence, worker, baseline, final, findings)
    _given_back(worker, baseline.ledger, final.ledger, findings)
    _empty(worker, final.ledger, findings)


def _last(evidence: RunEvidence, worker: str, phase: str) -> LedgerSample | None:
    """The last one with an answer; a later one without is worth nothing."""
    found = [one for one in evidence.samples if one.worker == worker and one.phase == phase]
    return found[-1] if found else None


def _given_back(
    worker: str, baseline: WorkerLedger, final: WorkerLedger, findings: Findings
) -> None:
    missing = [name for name in REQUIRED if name not in baseline.resources]
    if missing or baseline.resources.keys() != final.resources.keys():
        findings.doubt(f"{worker}: baseline and final do not list the same resources")
        return
    for name, was in baseline.resources.items():
        now = final.resources[name]
        if (now.free, now.total) != (was.free, was.total):
            text = f"{name}: {now.free} of {now.total} free, {was.free} of {was.total} at baseline"
            findings.fail(f"{worker}: {text}{_holders(final, name)}")
        elif now.held:
            findings.fail(f"{worker}: {name}: {now.held} held{_holders(final, name)}")


def _empty(worker: str, final: WorkerLedger, findings: Findings) -> None:
    left = {
        "rooms_open": final.rooms_open,
        "requests": final.requests,
        "rid_to_state": final.rid_to_state,
        "holders": len(final.holders),
        **{f"queue {name}": length for name, length in final.queues.items()},
    }
    for name, count in left.items():
        if count:
            findings.fail(f"{worker}: {name} is {count} at the end, not 0")


def _holders(ledger: WorkerLedger, resource: str) -> str:
    names = [f"{one.owner} ({one.count})" for one in ledger.holders if one.resource == resource]
    return f"; held by {', '.join(names)}" if names else "; nobody holds them by the ledger"
