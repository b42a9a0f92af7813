"""An aborted request has no `abort` span (after vllm#32162: aborted requests were not traced)."""

from __future__ import annotations

import engine.telemetry.spans
from engine.core.io_struct import SpanStamp
from engine.telemetry.spans import RequestTrace


def apply() -> None:
    stamps_of = engine.telemetry.spans._stamps

    def without_abort(request: RequestTrace) -> list[SpanStamp]:
        return [stamp for stamp in stamps_of(request) if stamp.name != "abort" and stamp.parent < 0]

    engine.telemetry.spans._stamps = without_abort
