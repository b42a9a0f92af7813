"""A client's own cancel is traced as an error of the server (after any-llm#909)."""

from __future__ import annotations

from opentelemetry.trace import Span, Status, StatusCode

import engine.telemetry.spans
from engine.core.io_struct import AbortInfo


def apply() -> None:
    def always_an_error(span: Span, abort: AbortInfo) -> None:
        span.set_attribute("error.type", str(abort.reason))
        span.set_status(Status(StatusCode.ERROR, abort.message))

    engine.telemetry.spans._set_status = always_an_error
