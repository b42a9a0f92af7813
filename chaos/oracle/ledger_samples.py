"""Whether a worker's ledger samples can be relied on: dense enough, and of the processes we know."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from chaos.oracle.evidence import RunEvidence
from chaos.oracle.findings import Findings
from chaos.records import LedgerSample

_MAX_SILENCE_NS = 6_000_000_000
"""The runner samples twice a second; so long without a line is a hole in the evidence."""
_MIN_ANSWERED = 0.5


def worker_names(evidence: RunEvidence) -> list[str]:
    """The scenario's workers, and whoever else wrote a ledger."""
    return list(dict.fromkeys([*evidence.plan.workers, *(s.worker for s in evidence.samples)]))


def judge_cover(evidence: RunEvidence, worker: str, findings: Findings) -> None:
    """The load must be covered by samples, and most of them answered unless the worker was killed."""
    samples = [one for one in evidence.samples if one.worker == worker and one.phase == "load"]
    silence_ns = max(_silences(evidence, samples))
    if silence_ns > _MAX_SILENCE_NS:
        findings.doubt(f"{worker}: {silence_ns / 1e9:.1f} s of the load without a ledger sample")
    judged = [one for one in samples if not _down(evidence, one)]
    findings.exempt(len(samples) - len(judged))
    answered = sum(one.ledger is not None for one in judged)
    if answered < _MIN_ANSWERED * len(judged) or not answered:
        findings.doubt(f"{worker}: {answered} of {len(judged)} samples during the load answered")


def _silences(evidence: RunEvidence, samples: list[LedgerSample]) -> Iterator[int]:
    """Lengths of the gaps between samples, from the first request due to the last."""
    begin_ns, end_ns = evidence.load_begin_ns, evidence.load_end_ns
    inside = [one.at_ns for one in samples if begin_ns <= one.at_ns <= end_ns]
    times = sorted([begin_ns, *inside, end_ns])
    yield from (later - earlier for earlier, later in pairwise(times))


def _down(evidence: RunEvidence, sample: LedgerSample) -> bool:
    """No answer from a worker that a fault had killed."""
    return sample.ledger is None and any(
        fault.stops_worker and sample.worker in fault.workers and fault.covers(sample.at_ns)
        for fault in evidence.faults
    )


def incarnations_agree(
    evidence: RunEvidence,
    worker: str,
    baseline: LedgerSample,
    final: LedgerSample,
    findings: Findings,
) -> None:
    """A worker's process changes once a kill, and never by itself."""
    seen = [
        one.ledger.incarnation
        for one in sorted(evidence.samples, key=lambda sample: sample.at_ns)
        if one.worker == worker and one.ledger and baseline.at_ns <= one.at_ns <= final.at_ns
    ]
    changes = [later for earlier, later in pairwise(seen) if earlier != later]
    kills = sum(
        fault.ends_process and worker in fault.workers and fault.begin_ns is not None
        for fault in evidence.faults
    )
    if len(changes) > kills:
        findings.fail(
            f"{worker} changed its process {len(changes)} times, faults killed it {kills}"
        )
    elif len(changes) < kills:
        findings.doubt(f"{worker} was killed {kills} times, its process changed {len(changes)}")
    elif len({*seen[:1], *changes}) != len(changes) + 1:
        findings.doubt(f"{worker}: an old process came back")
