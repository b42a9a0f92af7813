"""When spans may be lost without anybody's fault: a worker died with them, or their collector was away."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.oracle.evidence import RunEvidence
from chaos.oracle.fault_window import TELEMETRY, FaultWindow, killed_between

SPANS = "spans"
_EXPORT_NS = 2_000_000_000
"""A span is sent soon after its request's end, and an export that met the fault may hang that long."""


def spans_may_be_lost(
    evidence: RunEvidence, workers: Iterable[str], begin_ns: int, end_ns: float
) -> bool:
    """Spans of ``workers`` about a time: the workers were killed in it, or nobody could take them."""
    killed = killed_between(evidence.faults, workers, begin_ns, end_ns)
    return killed or collector_away(evidence, begin_ns, end_ns)


def collector_away(evidence: RunEvidence, begin_ns: int, end_ns: float) -> bool:
    """Whether a telemetry fault that silences spans was on, or just over, in between."""
    return any(
        _silences_spans(fault)
        and fault.begin_ns is not None
        and fault.begin_ns - _EXPORT_NS <= end_ns
        and begin_ns <= fault.end_ns + _EXPORT_NS
        for fault in evidence.faults
    )


def _silences_spans(fault: FaultWindow) -> bool:
    """By what it is and by what it declares: no link fault can talk itself out of the evidence."""
    return fault.kind == TELEMETRY and SPANS in fault.silences
