"""Names of the kinds of evidence, as `run.json` and the oracle spell them."""

from __future__ import annotations

from chaos.oracle.evidence import EvidenceKind

SPANS = str(EvidenceKind.SPANS)
LEDGER = str(EvidenceKind.LEDGER)
METRICS = str(EvidenceKind.METRICS)
CONTROL_RUN = str(EvidenceKind.CONTROL_RUN)
